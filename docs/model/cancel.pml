/*
 * The cancellation of a booked trip over three sites (docs/protocol.md, "Cancelling"), for the model
 * checker SPIN: `make check-model`. The conventions are those of trip.pml.
 *
 * The attempt is committed; whether it is cancelled is a question of its own with the same acceptors:
 * COMMIT stands for "cancelled", ABORT for "it runs". Ballot 0 is the traveller's, who proposes COMMIT.
 * Shortly before the start each site asks, and has the question answered when it is open. A leg that is
 * still held learns of its commit first, so it counts as booked here. Every site hears a majority
 * before its start, not always the same one.
 *
 * Checked in every reachable state: no leg runs while another one is released; none runs of a trip that
 * was cancelled before the sites began to ask; at most one answer is chosen.
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   ONLY_LEARN     a site asks what was accepted (LEARN) and does not settle the question: a majority
 *                  that answers need not be the majority that accepted
 *   LONE_START     a site starts its leg without asking
 *   HASTY_RELEASE  the traveller releases legs before the acceptors know of the cancellation
 *
 * With CAN_CANCEL or CAN_RUN an assertion is false on purpose, to show that these ends are reached: all
 * legs released; all legs run though their traveller proposed to cancel them, too late.
 */

#include "ballots.pml"

/* A leg. */
#define BOOKED 0
#define RELEASED 1
#define RUNS 2

byte leg[SITES];
bool is_late;                   /* it is time to ask */
bool was_in_time;               /* by then the trip had been cancelled */
byte outcome;                   /* what was chosen first; for the assertions only */

#define SOME(state) (leg[0] == state || leg[1] == state || leg[2] == state)
#define ALL(state) (leg[0] == state && leg[1] == state && leg[2] == state)

#ifdef ONLY_LEARN
#define IN_DOUBT (false)
#else
#define IN_DOUBT (is_late)
#endif
#define GOES_ON (value[0] == COMMIT)

inline check_legs() {
    assert(!(was_in_time && SOME(RUNS)));
    assert(!(SOME(RUNS) && SOME(RELEASED)));
#ifdef CAN_CANCEL
    assert(!ALL(RELEASED));
#endif
#ifdef CAN_RUN
    assert(!(value[0] == COMMIT && ALL(RUNS)));
#endif
}

inline check_outcome(b) {
    if
    :: VOTES(b) >= MAJORITY ->
        assert(outcome == 0 || outcome == value[b]);
        outcome = value[b]
    :: else
    fi
}

/* ---- the traveller, and the time --------------------------------------------------------------------- */

active proctype traveller() {
end:
    do
    :: d_step { value[0] == 0 -> value[0] = COMMIT }
    :: d_step { !is_late -> is_late = true; was_in_time = KNOWN(COMMIT) }
    od
}

/* ---- a participant ----------------------------------------------------------------------------------- */

active [SITES] proctype participant() {
end:
    do
    /* Told by the traveller who knows the answer, or learned by itself. */
    :: d_step { leg[mine] == BOOKED && KNOWN(COMMIT) -> leg[mine] = RELEASED; check_legs() }
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
