/*
 * The change of a booked trip over three sites (docs/protocol.md, section 4), for the model checker SPIN:
 * `make check-model`. The conventions are those of trip.pml.
 *
 * Each leg is booked in its old form; the next attempt holds a new form beside it. The acceptors' question
 * is the outcome of that attempt. Whether the *old* attempt was cancelled is another question, which
 * cancel.pml looks at; here it is one fact, said by whoever knows that the change is decided, for a site that
 * was left out. In this model all three sites go on, so nobody may take it for its own and lose a leg. Every
 * site hears a majority before its old start, whenever that is. The register of the new attempt is opened with its
 * hold; nobody lies here.
 *
 * Checked in every reachable state: no leg has its new form while another one keeps the old for good; no
 * leg is lost; at most one outcome is chosen, and COMMIT only when every new form is held.
 *
 * Each of these switches takes one safeguard away, and the checker must find the damage:
 *
 *   ASK_TOO_SOON    a site asks whether the old attempt was cancelled while its change is still open
 *   HASTY_CALL      the old attempt is called off when COMMIT is proposed, before it is chosen
 *   BREAK_FIRST     the traveller releases the old form when the new one is held, before the decision
 *   LONE_EXPIRY     the hold of a change ends with its lifetime, without asking
 *
 * With CAN_CHANGE, CAN_STAY or CAN_FOLLOW an assertion is false on purpose, to show that these ends are reached:
 * all legs have their new form; all keep the old one after COMMIT was proposed; a site takes the new form
 * after the old attempt was called off.
 */

#include "ballots.pml"

/* A leg. KEPT and REFUSED: in its old form for good; the new one was held, or never. */
#define OLD 0
#define HELD 1
#define NEW 2
#define KEPT 3
#define REFUSED 4
#define LOST 5

byte leg[SITES];
bool gives_up;                  /* the traveller released its holds without any proposal */
bool called_off;                /* the old attempt, for those who ask */
byte outcome;                   /* what was chosen first; for the assertions only */

#define SOME(state) (leg[0] == state || leg[1] == state || leg[2] == state)
#define ALL(state) (leg[0] == state && leg[1] == state && leg[2] == state)
#define WAS_HELD(s) (leg[s] == HELD || leg[s] == NEW || leg[s] == KEPT)
#define ALL_HELD (WAS_HELD(0) && WAS_HELD(1) && WAS_HELD(2))

#define HAS_REGISTER(s) WAS_HELD(s)
#define IN_DOUBT (WAS_HELD(0) || WAS_HELD(1) || WAS_HELD(2))
#define WISHES_COMMIT (false)
#define MAY_FORGET (false)

inline check_legs() {
    assert(!(SOME(NEW) && (SOME(KEPT) || SOME(REFUSED))));
    assert(!SOME(LOST));
#ifdef CAN_CHANGE
    assert(!ALL(NEW));
#endif
#ifdef CAN_STAY
    assert(!(value[0] == COMMIT && ALL(KEPT)));
#endif
}

inline check_outcome(b) {
    if
    :: VOTES(b) >= MAJORITY ->
        assert(outcome == 0 || outcome == value[b]);
        assert(value[b] == ABORT || outcome == COMMIT
            || (ALL_HELD && !SOME(KEPT)));
        outcome = value[b]
    :: else
    fi
}

/* ---- the traveller --------------------------------------------------------------------------------- */

active proctype traveller() {
end:
    do
    :: d_step { value[0] == 0 && !gives_up && ALL_HELD -> value[0] = COMMIT }
    :: d_step { value[0] == 0 && !gives_up -> gives_up = true }
    od
}

/* ---- a participant --------------------------------------------------------------------------------- */

active [SITES] proctype participant() {
end:
    do
    :: d_step { leg[mine] == OLD && IS_SILENT(mine) -> leg[mine] = HELD }
    :: d_step { leg[mine] == OLD -> leg[mine] = REFUSED; check_legs() }
    :: d_step { leg[mine] == HELD && gives_up -> leg[mine] = KEPT; check_legs() }
    :: d_step { leg[mine] == HELD && KNOWN(COMMIT) ->
#ifdef CAN_FOLLOW
        assert(!called_off);
#endif
        leg[mine] = NEW; check_legs() }
#ifdef BREAK_FIRST
    :: d_step { leg[mine] == HELD && KNOWN(ABORT) -> leg[mine] = LOST; check_legs() }
#else
    :: d_step { leg[mine] == HELD && KNOWN(ABORT) -> leg[mine] = KEPT; check_legs() }
#endif
    /* Who knows of the decision calls off what it has left behind; who keeps the old form asks. */
    :: d_step { KNOWN(COMMIT) && !called_off -> called_off = true }
    :: d_step { (leg[mine] == KEPT || leg[mine] == REFUSED) && called_off ->
        leg[mine] = LOST; check_legs() }
#ifdef ASK_TOO_SOON
    :: d_step { leg[mine] == HELD && called_off -> leg[mine] = LOST; check_legs() }
#endif
#ifdef HASTY_CALL
    :: d_step { value[0] == COMMIT && !called_off -> called_off = true }
#endif
#ifdef LONE_EXPIRY
    :: d_step { leg[mine] == HELD -> leg[mine] = KEPT; check_legs() }
#endif
    od
}

#include "acceptors.pml"
