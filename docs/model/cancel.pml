/*
 * The cancellation of a booked trip over three sites (docs/protocol.md, "Cancelling" and "Trust"), and the
 * withdrawal of a leg whose doubt was over, for the model checker SPIN: `make check-model`. The
 * conventions are those of trip.pml.
 *
 * COMMIT was chosen for the attempt; whether it is cancelled is a question of its own with the same
 * acceptors: COMMIT stands for "cancelled", ABORT for "it runs". Ballot 0 is the traveller's, who proposes
 * COMMIT. From CHECK_BEFORE_S before the start each site asks for the question to be settled towards ABORT, and
 * acceptors grant that only then. A leg that is still held learns of its commit first, so it counts as booked
 * here. Every site hears a majority before its start, not always the same one.
 *
 * Checked in every reachable state: no leg runs while another one is released or withdrawn; none runs of a trip
 * that was cancelled before the sites began to ask, and none whose room was given away; only the traveller or
 * a site that has withdrawn cancels; at most one answer is chosen.
 *
 * Nothing may be found either in these:
 *
 *   WITHDRAWAL           a site that could not hear of the attempt's outcome for as long as its owner bears it
 *                        withdraws its leg, and somebody else takes the room. It goes on asking, and when it
 *                        hears that COMMIT was chosen, before the others ask, it asks an acceptor to settle the
 *                        cancellation towards COMMIT
 *   LYING_PARTY          the same, and a fourth participant, no acceptor, asks to settle towards COMMIT at any
 *                        time, as if it had withdrawn. The three honest legs are what is checked
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   ONLY_LEARN           a site asks what was accepted (LEARN) and does not settle the question: a majority
 *                        that answers need not be the majority that accepted
 *   LONE_START           a site starts its leg without asking
 *   HASTY_RELEASE        the traveller releases legs before the acceptors know of the cancellation
 *   FORGETFUL_WITHDRAWAL a leg that was withdrawn is committed after all
 *   SILENT_WITHDRAWAL    a site that has withdrawn does not have the rest cancelled, or cannot: where legs begin
 *                        each for itself nothing helps a site that is cut off (begin.pml has those that
 *                        begin together)
 *   EARLY_SETTLE         acceptors settle towards ABORT at any time, for the LYING_PARTY too
 *   ANYBODY_VOTES        a stranger has ballot 0 as well
 *
 * With CAN_CANCEL, CAN_RUN or CAN_WITHDRAW an assertion is false on purpose, to show that these ends are reached:
 * all legs released; all legs run though their traveller proposed to cancel them, too late; one withdrawn, and the
 * others released for that.
 */

#ifdef EARLY_SETTLE
#define LYING_PARTY
#endif
#if defined(LYING_PARTY) || defined(FORGETFUL_WITHDRAWAL) || defined(SILENT_WITHDRAWAL) || defined(CAN_WITHDRAW)
#define WITHDRAWAL
#endif
#ifdef WITHDRAWAL
#define FEW_BALLOTS
#endif

#include "ballots.pml"

/* A leg. */
#define BOOKED 0
#define RELEASED 1
#define RUNS 2
#define WITHDRAWN 3

byte leg[SITES];
bool is_late;                   /* it is time to ask */
bool was_in_time;               /* by then the trip had been cancelled */
bool is_wished;                 /* the traveller wished the cancellation, or somebody had withdrawn */
bool is_taken[SITES];           /* the room of a leg that was withdrawn is somebody else's */
byte outcome;                   /* what was chosen first; for the assertions only */

#define SOME(state) (leg[0] == state || leg[1] == state || leg[2] == state)
#define ALL(state) (leg[0] == state && leg[1] == state && leg[2] == state)

#define HAS_REGISTER(s) (true)
#define MAY_FORGET (false)
#if defined(ONLY_LEARN)
#define IN_DOUBT (false)
#elif defined(EARLY_SETTLE)
#define IN_DOUBT (true)
#else
#define IN_DOUBT (is_late)
#endif
#if defined(SILENT_WITHDRAWAL) || !defined(WITHDRAWAL)
#define WISHES_COMMIT (false)
#elif defined(LYING_PARTY)
#define WISHES_COMMIT (true)
#else
#define WISHES_COMMIT (SOME(WITHDRAWN))
#endif
#ifdef SILENT_WITHDRAWAL
#define IS_HEARD (true)
#else
#define IS_HEARD (!SOME(WITHDRAWN) || KNOWN(COMMIT) || KNOWN(ABORT))
#endif

inline check_legs() {
    assert(!(was_in_time && SOME(RUNS)));
    assert(!(SOME(RUNS) && (SOME(RELEASED) || SOME(WITHDRAWN))));
    assert(!(is_taken[0] && leg[0] == RUNS || is_taken[1] && leg[1] == RUNS || is_taken[2] && leg[2] == RUNS));
#ifdef CAN_CANCEL
    assert(!ALL(RELEASED));
#endif
#ifdef CAN_RUN
    assert(!(value[0] == COMMIT && ALL(RUNS)));
#endif
#ifdef CAN_WITHDRAW
    assert(!(ALL(RELEASED) && value[0] == 0 && (is_taken[0] || is_taken[1] || is_taken[2])));
#endif
}

inline check_outcome(b) {
    if
    :: VOTES(b) >= MAJORITY ->
        assert(outcome == 0 || outcome == value[b]);
        outcome = value[b];
#ifndef LYING_PARTY
        assert(outcome == ABORT || is_wished)
#endif
    :: else
    fi
}

/* ---- the traveller, and the time --------------------------------------------------------------------- */

active proctype traveller() {
end:
    do
    :: d_step { value[0] == 0 -> value[0] = COMMIT; is_wished = true }
#ifdef ANYBODY_VOTES
    :: d_step { value[0] == 0 -> value[0] = COMMIT }
#endif
    :: d_step { !is_late && IS_HEARD -> is_late = true; was_in_time = KNOWN(COMMIT) }
    od
}

/* ---- a participant ----------------------------------------------------------------------------------- */

active [SITES] proctype participant() {
end:
    do
    /* Told by the traveller who knows the answer, or learned by itself. */
    :: d_step { (leg[mine] == BOOKED || leg[mine] == WITHDRAWN) && KNOWN(COMMIT) ->
        leg[mine] = RELEASED; check_legs() }
#ifdef WITHDRAWAL
    :: d_step { leg[mine] == BOOKED && !is_late ->
        leg[mine] = WITHDRAWN; is_taken[mine] = true; is_wished = true; check_legs() }
#endif
#ifdef FORGETFUL_WITHDRAWAL
    :: d_step { leg[mine] == WITHDRAWN -> leg[mine] = BOOKED }
#endif
#ifdef ONLY_LEARN
    /* Some two acceptors answer, and not both have accepted. */
    :: d_step { leg[mine] == BOOKED && is_late && VOTES(0) < SITES ->
        leg[mine] = RUNS; check_legs() }
#else
    :: d_step { leg[mine] == BOOKED && is_late && KNOWN(ABORT) -> leg[mine] = RUNS; check_legs() }
#endif
#ifdef LONE_START
    :: d_step { leg[mine] == BOOKED && is_late -> leg[mine] = RUNS; check_legs() }
#endif
#ifdef HASTY_RELEASE
    :: d_step { leg[mine] == BOOKED && value[0] == COMMIT -> leg[mine] = RELEASED; check_legs() }
#endif
    od
}

#include "acceptors.pml"
