/*
 * The outcome of one attempt of a trip over three sites (docs/protocol.md, section 3), for the model
 * checker SPIN: `make check-model`.
 *
 * Messages are facts. What was sent once may arrive at any later time, any number of times, or never; so
 * loss, delay, doubling and reordering need no actions of their own. Everything that a party remembers
 * here is journaled before anybody hears of it; so a crash is a silence, and a death one without end.
 * Nobody is ever made to act.
 *
 * Ballots: 0 is the traveller's own. Each of 1, 2 and 3 belongs to whoever comes: a site in doubt, which
 * wishes ABORT, or the traveller once more, who wishes to go on (COMMIT) or to give up (ABORT). A ballot
 * carries one value, so a vote is known by its ballot.
 *
 * Three reductions, none of which loses a behaviour:
 * - A proposer writes down of the promises it hears how many there are and the highest vote among them,
 *   and proposes as it hears the second; any answer may be lost. So it proposes from any two of three
 *   promises, and promises of three give what two of them give. A proposal that is not sent at once is
 *   one that arrives late.
 * - A participant that is told "commit" by a traveller who knows the outcome does what it does when it
 *   learns the outcome itself, so both are one step; and so with "release" after ABORT.
 * - A prepare may arrive as soon as some site has held its leg: that site was in doubt then. A promise
 *   does not ask whose the ballot is; that shows in the wish only.
 *
 * Checked in every reachable state: no leg is committed while another one is gone; at most one outcome is
 * chosen; COMMIT is chosen only when every leg is held. The hold's start, at which a hold ends without an
 * outcome, never comes here (docs/protocol.md, "What it does not do").
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   NO_PROMISES    an acceptor accepts below what it promised
 *   BLIND_DOUBT    a site in doubt proposes ABORT without looking at what was accepted
 *   HASTY_RELEASE  the traveller releases holds of an attempt that it has proposed to commit
 *   LONE_EXPIRY    a site lets its hold go when its lifetime ends, without asking
 *   EAGER_COMMIT   the traveller tells sites to commit before a majority has accepted
 *   EARLY_COMMIT   the traveller proposes COMMIT when only two of the legs are held
 *   REUSED_BALLOT  ballot 3 is used twice: its proposer forgot that it had used it
 *
 * With CAN_BOOK, CAN_ABORT or CAN_CARRY_ON an assertion is false on purpose, to show that these ends are
 * reached: all legs committed; all let go by the acceptors' ABORT after COMMIT was proposed; COMMIT
 * carried on by a site in doubt (where the traveller proposes once only).
 */

#include "ballots.pml"

/* A leg. REFUSED: never held, and never will be (a refusal, or a tombstone). */
#define NONE 0
#define HELD 1
#define COMMITTED 2
#define RELEASED 3
#define REFUSED 4

/* What participants remember. */
byte leg[SITES];
bool gives_up;                  /* the traveller released its holds without any proposal */
byte outcome;                   /* what was chosen first; for the assertions only */

#define WAS_HELD(s) (leg[s] == HELD || leg[s] == COMMITTED || leg[s] == RELEASED)
#define IS_GONE(s) (leg[s] == RELEASED || leg[s] == REFUSED)

/* When a prepare may arrive, and when one of a traveller who wishes COMMIT. */
#define IN_DOUBT (WAS_HELD(0) || WAS_HELD(1) || WAS_HELD(2))
#define GOES_ON (value[0] == COMMIT)

inline check_legs() {
    assert(!((leg[0] == COMMITTED || leg[1] == COMMITTED || leg[2] == COMMITTED)
          && (IS_GONE(0) || IS_GONE(1) || IS_GONE(2))));
#ifdef CAN_BOOK
    assert(!(leg[0] == COMMITTED && leg[1] == COMMITTED && leg[2] == COMMITTED));
#endif
#ifdef CAN_ABORT
    assert(!(value[0] == COMMIT
          && leg[0] == RELEASED && leg[1] == RELEASED && leg[2] == RELEASED));
#endif
}

inline check_outcome(b) {
    if
    :: VOTES(b) >= MAJORITY ->
        assert(outcome == 0 || outcome == value[b]);
        assert(value[b] == ABORT || outcome == COMMIT
            || (WAS_HELD(0) && WAS_HELD(1) && WAS_HELD(2)
                && !IS_GONE(0) && !IS_GONE(1) && !IS_GONE(2)));
#ifdef CAN_CARRY_ON
        assert(!(outcome == 0 && value[b] == COMMIT && b > 0));
#endif
        outcome = value[b]
    :: else
    fi
}

/* ---- the traveller --------------------------------------------------------------------------------- */

active proctype traveller() {
end:
    do
    /* Every leg was held, by what the sites answered; it is written down, then proposed. */
#ifdef EARLY_COMMIT
    :: d_step { value[0] == 0 && !gives_up && WAS_HELD(0) && WAS_HELD(1) -> value[0] = COMMIT }
#else
    :: d_step { value[0] == 0 && !gives_up && WAS_HELD(0) && WAS_HELD(1) && WAS_HELD(2) ->
        value[0] = COMMIT }
#endif
    /* A refusal, or the user's wish, before any proposal. */
#ifdef HASTY_RELEASE
    :: d_step { !gives_up -> gives_up = true }
#else
    :: d_step { value[0] == 0 && !gives_up -> gives_up = true }
#endif
    od
}

/* ---- a participant --------------------------------------------------------------------------------- */

active [SITES] proctype participant() {
end:
    do
    :: d_step { leg[mine] == NONE -> leg[mine] = HELD }
    :: d_step { leg[mine] == NONE -> leg[mine] = REFUSED; check_legs() }
    :: d_step { leg[mine] == HELD && gives_up -> leg[mine] = RELEASED; check_legs() }
    :: d_step { leg[mine] == HELD && KNOWN(COMMIT) -> leg[mine] = COMMITTED; check_legs() }
    :: d_step { leg[mine] == HELD && KNOWN(ABORT) -> leg[mine] = RELEASED; check_legs() }
#ifdef EAGER_COMMIT
    :: d_step { leg[mine] == HELD && value[0] == COMMIT -> leg[mine] = COMMITTED; check_legs() }
#endif
#ifdef LONE_EXPIRY
    :: d_step { leg[mine] == HELD -> leg[mine] = RELEASED; check_legs() }
#endif
    od
}

#include "acceptors.pml"
