/*
 * The outcome of one attempt of a trip over three sites (docs/protocol.md, sections "Trust" and 3), for the
 * model checker SPIN: `make check-model`.
 *
 * Messages are facts. What was sent once may arrive at any later time, any number of times, or never; so
 * loss, delay, doubling and reordering need no actions of their own. Everything that a party remembers
 * here is journaled before anybody hears of it; so a crash is a silence, and a death one without end.
 * Nobody is ever made to act.
 *
 * Each of the three sites holds a leg and is an acceptor; its register is opened with its hold. Ballots: 0 is
 * the traveller's own, and he has no other. 1, 2 and 3 are the acceptors': somebody has asked one of them to
 * settle, which is towards ABORT; the traveller to give up, a party in doubt, or nobody but the acceptor's
 * own doubt. A ballot carries one value, so a vote is known by its ballot.
 *
 * Four reductions, none of which loses a behaviour:
 * - A proposer writes down of the promises it hears how many there are and the highest vote among them,
 *   and proposes as it hears the second; any answer may be lost. So it proposes from any two of three
 *   promises, and promises of three give what two of them give. A proposal that is not sent at once is
 *   one that arrives late.
 * - A participant that is told "commit" by a traveller who knows the outcome does what it does when it
 *   learns the outcome itself, so both are one step; and so with "release" after ABORT.
 * - A prepare may arrive as soon as some site has held its leg: that site was in doubt then.
 * - LEARN changes nothing, so a party that asks to settle and learns takes one step, as it knows.
 *
 * Checked in every reachable state: no leg is committed while another one is gone; at most one outcome is
 * chosen; COMMIT is chosen only when every leg is held. A doubt that ends before it is settled is in
 * cancel.pml and begin.pml.
 *
 * Nothing may be found either in these:
 *
 *   OUTSIDER         a fourth leg, at a site that is no acceptor: it asks an acceptor to settle, and learns
 *   STRANGER         somebody who knows the attempt's name and is no party: he prepares and proposes ABORT
 *                    under a ballot of his own, without having heard a promise, where there is no register
 *                    yet; and asks an acceptor without a register to settle among sites that he names
 *   LYING_PARTY      the same by a fourth participant, which is no acceptor: it also asks to settle at any
 *                    time, says that it holds its leg or not, and does with it what it likes. The three honest
 *                    legs are what is checked
 *   FORGETFUL        an acceptor forgets after tombstone_s what it said without a register; by then the traveller
 *                    proposes nothing any more
 *   LYING_TRAVELLER  proposes COMMIT when he likes, tells any site to commit or to release at any time. Of his
 *                    trip only this is checked: at most one outcome, and no leg that is gone comes back
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   NO_PROMISES      an acceptor accepts below what it promised
 *   BLIND_DOUBT      ABORT is proposed without looking at what was accepted
 *   HASTY_RELEASE    the traveller releases holds of an attempt that it has proposed to commit
 *   LONE_EXPIRY      a site lets its hold go when its lifetime ends, without asking
 *   EAGER_COMMIT     the traveller tells sites to commit before a majority has accepted
 *   EARLY_COMMIT     the traveller proposes COMMIT when only two of the legs are held
 *   REUSED_BALLOT    ballot 3 is used twice: its proposer forgot that it had used it
 *   HOLD_AFTER_VOTE  a site takes a hold of an attempt about which it has spoken without a register, in front
 *                    of a LYING_PARTY
 *   LATE_PROPOSAL    the traveller proposes COMMIT when what was said without registers may be forgotten
 *   REUSED_NAME      a traveller whose log was put back from a backup uses an attempt's name again
 *   ANYBODY_VOTES    an acceptor with a register takes the STRANGER's proposals too
 *   LYING_ACCEPTOR   one acceptor of three denies what it has said: no rule helps (docs/protocol.md, "Trust")
 *
 * With CAN_BOOK, CAN_ABORT or CAN_CARRY_ON an assertion is false on purpose, to show that these ends are
 * reached: all legs committed; all let go by the acceptors' ABORT after COMMIT was proposed; COMMIT
 * carried on by an acceptor that was asked to settle.
 */

#ifdef OUTSIDER
#define PARTIES 4
#endif
#ifdef LATE_PROPOSAL
#define FORGETFUL
#endif
#if defined(OUTSIDER) || defined(FORGETFUL) || defined(LYING_TRAVELLER)
#define FEW_BALLOTS
#endif
#ifdef HOLD_AFTER_VOTE
#define LYING_PARTY
#endif
#ifdef ANYBODY_VOTES
#define STRANGER
#endif
#if defined(STRANGER) || defined(LYING_PARTY)
#define FOREIGN_BALLOT
#endif

#include "ballots.pml"

/* A leg. REFUSED: never held, and never will be (a refusal, or a tombstone). */
#define NONE 0
#define HELD 1
#define COMMITTED 2
#define RELEASED 3
#define REFUSED 4

/* What participants remember. */
byte leg[PARTIES];
bool gives_up;                  /* the traveller released its holds without any proposal */
bool is_old;                    /* so long has passed since the traveller asked for the first hold */
byte outcome;                   /* what was chosen first; for the assertions only */

#define WAS_HELD(s) (leg[s] == HELD || leg[s] == COMMITTED || leg[s] == RELEASED)
#define IS_GONE(s) (leg[s] == RELEASED || leg[s] == REFUSED)
#define ALL(state) (leg[0] == state && leg[1] == state && leg[2] == state)
#ifdef OUTSIDER
#define ALL_HELD (WAS_HELD(0) && WAS_HELD(1) && WAS_HELD(2) && WAS_HELD(3))
#define SOME_GONE (IS_GONE(0) || IS_GONE(1) || IS_GONE(2) || IS_GONE(3))
#define SOME_COMMITTED \
    (leg[0] == COMMITTED || leg[1] == COMMITTED || leg[2] == COMMITTED || leg[3] == COMMITTED)
#else
#define ALL_HELD (WAS_HELD(0) && WAS_HELD(1) && WAS_HELD(2))
#define SOME_GONE (IS_GONE(0) || IS_GONE(1) || IS_GONE(2))
#define SOME_COMMITTED (leg[0] == COMMITTED || leg[1] == COMMITTED || leg[2] == COMMITTED)
#endif

/* What the acceptors ask for (acceptors.pml). A stranger waits for the first hold too: chance has named
 * the attempt, and nobody can speak of it before it was sent. */
#define HAS_REGISTER(s) WAS_HELD(s)
#ifdef LYING_PARTY
#define IN_DOUBT (true)
#else
#define IN_DOUBT (WAS_HELD(0) || WAS_HELD(1) || WAS_HELD(2) || WAS_HELD(PARTIES - 1))
#endif
#define WISHES_COMMIT (false)
#define MAY_FORGET (is_old)

/* When a hold may come. */
#ifdef HOLD_AFTER_VOTE
#define MAY_HOLD(s) (true)
#else
#define MAY_HOLD(s) (s >= SITES || IS_SILENT(s))
#endif

/* When the traveller may propose COMMIT. */
#ifdef EARLY_COMMIT
#define MAY_PROPOSE (!gives_up && !is_old && WAS_HELD(0) && WAS_HELD(1))
#elif defined(LATE_PROPOSAL)
#define MAY_PROPOSE (!gives_up && ALL_HELD)
#elif defined(LYING_TRAVELLER)
#define MAY_PROPOSE (!is_old)
#else
#define MAY_PROPOSE (!gives_up && !is_old && ALL_HELD)
#endif

#ifdef LYING_TRAVELLER
#define HAS_HONEST_OWNER (false)
#else
#define HAS_HONEST_OWNER (true)
#endif

inline check_legs() {
    assert(!HAS_HONEST_OWNER || !(SOME_COMMITTED && SOME_GONE));
#ifdef CAN_BOOK
    assert(!ALL(COMMITTED));
#endif
#ifdef CAN_ABORT
    assert(!(value[0] == COMMIT && ALL(RELEASED)));
#endif
}

inline check_outcome(b) {
    if
    :: VOTES(b) >= MAJORITY ->
        assert(outcome == 0 || outcome == value[b]);
        assert(!HAS_HONEST_OWNER || value[b] == ABORT || outcome == COMMIT
            || (ALL_HELD && !SOME_GONE));
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
    :: d_step { value[0] == 0 && MAY_PROPOSE -> value[0] = COMMIT }
    /* A refusal, or the user's wish, before any proposal. */
#ifdef HASTY_RELEASE
    :: d_step { !gives_up -> gives_up = true }
#else
    :: d_step { value[0] == 0 && !gives_up -> gives_up = true }
#endif
#ifdef FORGETFUL
    :: d_step { !is_old -> is_old = true }
#endif
#ifdef REUSED_NAME
    /* He knows of no attempt, and books again: other holds under the name that was decided. */
    :: d_step { outcome == COMMIT && ALL(COMMITTED) -> leg[0] = NONE; leg[1] = NONE; leg[2] = NONE }
#endif
    od
}

/* ---- a participant --------------------------------------------------------------------------------- */

active [PARTIES] proctype participant() {
end:
    do
    :: d_step { leg[mine] == NONE && MAY_HOLD(mine) -> leg[mine] = HELD }
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
#ifdef LYING_TRAVELLER
    :: d_step { leg[mine] == HELD -> leg[mine] = COMMITTED }
    :: d_step { leg[mine] == HELD || leg[mine] == COMMITTED -> leg[mine] = RELEASED }
#endif
    od
}

#include "acceptors.pml"

/* ---- a stranger, or a party that lies ---------------------------------------------------------------- */

#ifdef FOREIGN_BALLOT
active proctype liar() {
end:
    do
    :: d_step { value[2] == 0 -> value[2] = ABORT }
    /* Site 0 settles among those that it is told of: it has heard no promise that counts but its own. */
    :: d_step { !HAS_REGISTER(0) && value[1] == 0 && promised[0] == 0 ->
        promised[0] = 1; value[1] = ABORT; heard[1] = 0; best[1] = 0 }
    od
}
#endif
