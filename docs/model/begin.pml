/*
 * Whether the legs of a booked trip begin (docs/protocol.md, "Trust" and "Conditions"; decision 0034), over three
 * sites, for the model checker SPIN: `make check-model`.
 *
 * The acceptors are asked five questions: the attempt's outcome, its cancellation, and for each leg whether it
 * was ready. Each is answered COMMIT or ABORT once, which trip.pml and cancel.pml have shown with ballots. So a
 * question is one fact here, chosen at any time after somebody could have proposed it, whatever its acceptors
 * went through; who hears a majority hears what was chosen, or has it settled. The outcome: COMMIT by the
 * traveller, since every leg was held, ABORT by anybody. The cancellation: COMMIT at any time, ABORT from
 * CHECK_BEFORE_S before the start on, as the acceptors' clocks say. Ready: COMMIT by the site that holds the leg,
 * when that is committed; ABORT from the start on.
 *
 * A site may be away: cut off, from some moment on until it is too late; dead, likewise; or dead at the start
 * and back before it is too late. The conventions are those of trip.pml otherwise. What a site has learned it
 * has written down.
 *
 * Checked in every reachable state where legs begin together: no leg runs of a trip that was cancelled, and none
 * while another one is released, withdrawn or not committed, wherever anybody is. When it is too late: all legs
 * run or none, but for those whose sites are dead, or were cut off before they knew.
 *
 * Nothing may be found either in these:
 *
 *   EACH                 legs begin each for itself: one that hears no majority begins, if it knows that it is
 *                        committed. Checked of the sites that are not away; a site whose doubt is over hears a
 *                        majority before the others ask
 *   LYING_PARTY, LYING_EACH the third site says that its leg is ready when it likes, has the trip cancelled, and
 *                        does with its leg what it likes. The two honest legs are what is checked
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   LONE_START           a leg begins at its time without asking
 *   ASK_NOT_AFTER_RESTART a site that was dead at the start begins its committed leg when it is back
 *   READY_BY_HEARSAY     a site asks whether the legs are ready (LEARN) and does not have it settled
 *   LATE_READY           a site counts its own leg as ready, though ABORT was chosen for it
 *   READY_WHEN_HELD      a site says that a leg is ready which is held and not committed
 *   SILENT_START         a site that has learned that the trip runs does not write that down
 *   SILENT_WITHDRAWAL    with EACH: a site that has withdrawn does not have the rest cancelled
 *   FORGETFUL_WITHDRAWAL a leg that was withdrawn is committed after all
 *   CUT_OFF_EACH         with EACH: of those that hear nothing it is asked too that they run all or none. No rule is
 *                        right for both, who is alone and who is missing
 *
 * With CAN_BEGIN, CAN_STAY or CAN_CATCH_UP an assertion is false on purpose, to show that these ends are reached:
 * all legs run; none runs, since one was not ready; a leg runs whose site was dead at the start.
 */

#if defined(SILENT_WITHDRAWAL) || defined(CUT_OFF_EACH) || defined(LYING_EACH)
#define EACH
#endif
#ifdef LYING_EACH
#define LYING_PARTY
#endif

#define SITES 3

/* What was chosen; 0: nothing yet. */
#define COMMIT 1
#define ABORT 2
byte outcome;
byte cancellation;
byte ready[SITES];

/* The time, by the acceptors' clocks. */
#define EARLY 0
#define ASKING 1                /* from CHECK_BEFORE_S before the start */
#define DUE 2                   /* from the start to the last second in which a leg may begin */
#define OVER 3
byte time;

/* A leg. CALLED: it is written down that the leg begins. Held at first, all of them. */
#define HELD 0
#define COMMITTED 1
#define CALLED 2
#define RUNS 3
#define RELEASED 4
#define WITHDRAWN 5
byte leg[SITES];
bool is_taken[SITES];           /* the room of a leg that was withdrawn is somebody else's */

/* Where a site is. */
#define HERE 0
#define ASLEEP 1                /* dead at the start */
#define BACK 2                  /* and here again */
#define CUT_OFF 3               /* for good, before it knew whether its leg begins */
#define DEAD 4                  /* for good, after that; before, a dead site is one that hears nothing */
byte place[SITES];

#define HEARS(s) (place[s] == HERE || place[s] == BACK)
#define LIVES(s) (HEARS(s) || place[s] == CUT_OFF)
#define IS_FINAL(s) (leg[s] == RUNS || leg[s] == RELEASED || leg[s] == WITHDRAWN)

/* Legs that nobody lies about. */
#ifdef LYING_PARTY
#define SOME(p) (p(0) || p(1))
#define IS_ANYBODYS(s) ((s) == 2)
#define HONEST 2
#else
#define SOME(p) (p(0) || p(1) || p(2))
#define IS_ANYBODYS(s) (false)
#define HONEST SITES
#endif
#define ALL_READY(v) (ready[0] == v && ready[1] == v && ready[2] == v)
#define SOME_READY(v) (ready[0] == v || ready[1] == v || ready[2] == v)

#ifdef EACH
/* Of those that hear; and of all that are committed, where more is asked than can be had. */
#ifdef CUT_OFF_EACH
#define COUNTS(s) (LIVES(s))
#else
#define COUNTS(s) (HEARS(s))
#endif
#define IS_RUNNING(s) (COUNTS(s) && leg[s] == RUNS)
#define IS_NEVER(s) (COUNTS(s) && (leg[s] == RELEASED || leg[s] == WITHDRAWN))
#else
#define IS_RUNNING(s) (leg[s] == RUNS)
#define IS_NEVER(s) (leg[s] == RELEASED || leg[s] == WITHDRAWN || leg[s] == HELD)
#endif
#ifdef SILENT_START
bool has_known[SITES];
#define HAS_KNOWN(s) (has_known[s])
#else
#define HAS_KNOWN(s) (leg[s] == CALLED)
#endif
#define IS_MISSING(s) (leg[s] != RUNS && (HEARS(s) || place[s] == CUT_OFF && HAS_KNOWN(s)))
#define IS_SOLD(s) (is_taken[s] && (leg[s] == COMMITTED || leg[s] == CALLED || leg[s] == RUNS))

inline check() {
    assert(!(cancellation == COMMIT && SOME(IS_RUNNING)));
    assert(!(SOME(IS_RUNNING) && SOME(IS_NEVER)));
    assert(!(time == OVER && SOME(IS_RUNNING) && SOME(IS_MISSING)));
    assert(!SOME(IS_SOLD));
#ifdef CAN_BEGIN
    assert(!(leg[0] == RUNS && leg[1] == RUNS && leg[2] == RUNS));
#endif
#ifdef CAN_STAY
    assert(!(outcome == COMMIT && SOME_READY(COMMIT) && SOME_READY(ABORT)
        && leg[0] == RELEASED && leg[1] == RELEASED && leg[2] == RELEASED));
#endif
#ifdef CAN_CATCH_UP
    assert(!(leg[0] == RUNS && leg[1] == RUNS && leg[2] == RUNS && place[2] == BACK));
#endif
}

/* ---- the acceptors ----------------------------------------------------------------------------------- */

#ifdef READY_WHEN_HELD
#define MAY_BE_READY(s) (true)
#else
#define MAY_BE_READY(s) (IS_ANYBODYS(s) || leg[s] != HELD && leg[s] != WITHDRAWN)
#endif

active proctype acceptors() {
end:
    do
    :: d_step { outcome == 0 -> outcome = COMMIT }
    :: d_step { outcome == 0 -> outcome = ABORT }
    :: d_step { cancellation == 0 -> cancellation = COMMIT; check() }
    :: d_step { cancellation == 0 && time != EARLY -> cancellation = ABORT }
    :: d_step { ready[0] == 0 && MAY_BE_READY(0) -> ready[0] = COMMIT }
    :: d_step { ready[1] == 0 && MAY_BE_READY(1) -> ready[1] = COMMIT }
    :: d_step { ready[2] == 0 && MAY_BE_READY(2) -> ready[2] = COMMIT }
    :: d_step { ready[0] == 0 && (time == DUE || time == OVER) -> ready[0] = ABORT }
    :: d_step { ready[1] == 0 && (time == DUE || time == OVER) -> ready[1] = ABORT }
    :: d_step { ready[2] == 0 && (time == DUE || time == OVER) -> ready[2] = ABORT }
    od
}

/* ---- the time ---------------------------------------------------------------------------------------- */

/* Who hears is done with its doubt before the others ask. With legs that begin together nobody need be. */
#if defined(SILENT_WITHDRAWAL)
#define IS_CLEAR(s) (IS_ANYBODYS(s) || !HEARS(s) || leg[s] != HELD)
#elif defined(EACH)
#define IS_CLEAR(s) (IS_ANYBODYS(s) || !HEARS(s) || leg[s] != HELD \
    && (leg[s] != WITHDRAWN || outcome == ABORT || outcome == COMMIT && cancellation != 0))
#else
#define IS_CLEAR(s) (true)
#endif
/* Who hears comes to an end before it is too late; and who lives and knows begins. */
#define IS_DONE(s) (IS_ANYBODYS(s) || place[s] == DEAD \
    || place[s] == CUT_OFF && leg[s] != CALLED || place[s] != ASLEEP && IS_FINAL(s))

active proctype clock() {
end:
    do
    :: d_step { time == EARLY && IS_CLEAR(0) && IS_CLEAR(1) && IS_CLEAR(2) -> time = ASKING }
    :: d_step { time == ASKING -> time = DUE }
    :: d_step { time == DUE && IS_DONE(0) && IS_DONE(1) && IS_DONE(2) -> time = OVER; check() }
    od
}

/* ---- a participant ----------------------------------------------------------------------------------- */

#define mine (_pid - 2)

#define IS_ASKED (HEARS(mine) && leg[mine] == COMMITTED && time != EARLY && time != OVER)
#ifdef EACH
#define IS_CALLED (cancellation == ABORT)
#define IS_OFF (false)
#elif defined(LATE_READY)
#define IS_CALLED (cancellation == ABORT && (ready[0] == COMMIT || mine == 0) \
    && (ready[1] == COMMIT || mine == 1) && (ready[2] == COMMIT || mine == 2))
#define IS_OFF SOME_READY(ABORT)
#else
#define IS_CALLED (cancellation == ABORT && ALL_READY(COMMIT))
#ifdef READY_BY_HEARSAY
#define IS_OFF (!ALL_READY(COMMIT))
#else
#define IS_OFF SOME_READY(ABORT)
#endif
#endif

active [HONEST] proctype participant() {
end:
    do
    /* A hold: told or learned. In the end nobody hears any more of it, and its room is free. */
    :: d_step { HEARS(mine) && leg[mine] == HELD && outcome == COMMIT && time != OVER -> leg[mine] = COMMITTED }
    :: d_step { HEARS(mine) && leg[mine] == HELD && outcome == ABORT -> leg[mine] = RELEASED; check() }
    :: d_step { LIVES(mine) && leg[mine] == HELD -> leg[mine] = WITHDRAWN; is_taken[mine] = true; check() }
    :: d_step { HEARS(mine) && leg[mine] == WITHDRAWN && (outcome == ABORT || cancellation == COMMIT) ->
        leg[mine] = RELEASED; check() }
#ifdef FORGETFUL_WITHDRAWAL
    :: d_step { HEARS(mine) && leg[mine] == WITHDRAWN && outcome == COMMIT -> leg[mine] = COMMITTED; check() }
#endif
    /* A committed leg. */
    :: d_step { HEARS(mine) && leg[mine] == COMMITTED && cancellation == COMMIT -> leg[mine] = RELEASED; check() }
    :: d_step { IS_ASKED && IS_OFF -> leg[mine] = RELEASED; check() }
    :: d_step { IS_ASKED && IS_CALLED -> leg[mine] = CALLED;
#ifdef SILENT_START
        has_known[mine] = true
#endif
        }
    :: d_step { LIVES(mine) && leg[mine] == CALLED && time == DUE -> leg[mine] = RUNS; check() }
#ifdef EACH
    :: d_step { place[mine] == CUT_OFF && leg[mine] == COMMITTED && time == DUE -> leg[mine] = RUNS; check() }
#endif
#ifdef LONE_START
    :: d_step { LIVES(mine) && leg[mine] == COMMITTED && time == DUE -> leg[mine] = RUNS; check() }
#endif
#ifdef ASK_NOT_AFTER_RESTART
    :: d_step { place[mine] == BACK && leg[mine] == COMMITTED && time == DUE -> leg[mine] = RUNS; check() }
#endif
    /* Where the site is. */
    :: d_step { place[mine] == HERE && time == ASKING && !IS_FINAL(mine) -> place[mine] = ASLEEP }
    :: d_step { place[mine] == ASLEEP && time == DUE -> place[mine] = BACK }
    :: d_step { HEARS(mine) && leg[mine] != CALLED && leg[mine] != RUNS && leg[mine] != RELEASED && time != OVER ->
        place[mine] = CUT_OFF }
    :: d_step { leg[mine] == CALLED && time != OVER -> place[mine] = DEAD }
#ifdef SILENT_START
    /* It starts again, and knows what is in its journal. */
    :: d_step { LIVES(mine) && leg[mine] == CALLED -> leg[mine] = COMMITTED }
#endif
    od
}
