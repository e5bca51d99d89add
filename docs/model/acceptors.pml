/*
 * Acceptors, with the ears of the proposers; shared by trip.pml, cancel.pml and change.pml, which say
 * whether an acceptor has a register of the attempt (HAS_REGISTER), when somebody may ask it to settle the
 * question towards ABORT (IN_DOUBT) and towards COMMIT (WISHES_COMMIT), and check what is chosen
 * (check_outcome).
 *
 * An acceptor proposes when it is asked to settle, also by itself. Whose a ballot above 0 is shows only
 * where it matters: with FOREIGN_BALLOT ballot 2 belongs to a site that is no acceptor.
 */

#ifdef BLIND_DOUBT
#define IS_BLIND (true)
#else
#define IS_BLIND (false)
#endif

/* Whose messages an acceptor takes: with a register those of its acceptors, without one everybody's. */
#ifdef FOREIGN_BALLOT
#define IS_FOREIGN(b) ((b) == 2)
#else
#define IS_FOREIGN(b) (false)
#endif
#ifdef ANYBODY_VOTES
#define MAY_SPEAK(b) (true)
#else
#define MAY_SPEAK(b) (!IS_FOREIGN(b) || !HAS_REGISTER(me))
#endif

#ifdef LYING_ACCEPTOR
#define IS_LIAR (me == 2)
#else
#define IS_LIAR (false)
#endif

/* The proposer of ballot b hears this acceptor's promise, the second one makes it propose. */
inline hear(b, wish) {
    if
    :: VOTE_RANK(vote[me]) > VOTE_RANK(best[b]) -> best[b] = vote[me]
    :: else
    fi;
    heard[b]++;
    if
    :: heard[b] == MAJORITY ->
        if
        :: best[b] == 0 || (IS_BLIND && wish == ABORT) -> value[b] = wish
        :: else -> value[b] = value[best[b] - 1]
        fi;
        heard[b] = 0;
        best[b] = 0
    :: else
    fi
}

inline accept(b) {
    promised[me] = RANK(b);
    vote[me] = b + 1;
    has_accepted[(b) * SITES + me] = true;
    check_outcome(b)
}

#ifdef NO_PROMISES
#define IS_FREE(b) (true)
#else
#define IS_FREE(b) (promised[me] <= RANK(b))
#endif
/* Without a register an acceptor knows no traveller, and accepts ABORT only. */
#define MAY_ACCEPT(b) (value[b] != 0 && !has_accepted[(b) * SITES + me] && IS_FREE(b) \
    && MAY_SPEAK(b) && (value[b] == ABORT || HAS_REGISTER(me)))
/* A prepare of ballot b that changes something, and one whose answer its proposer still waits for. */
#define MAY_PROMISE(b) ((b) <= LAST_BALLOT && promised[me] < (b) && MAY_SPEAK(b))
#define MAY_HEAR(b) (MAY_PROMISE(b) && !IS_FOREIGN(b) && value[b] == 0)

active [SITES] proctype acceptor() {
end:
    do
    /* A prepare arrives, and its answer is lost, or of no use any more. */
    :: d_step { IN_DOUBT && MAY_PROMISE(1) -> promised[me] = 1 }
    :: d_step { IN_DOUBT && MAY_PROMISE(2) -> promised[me] = 2 }
    :: d_step { IN_DOUBT && MAY_PROMISE(3) -> promised[me] = 3 }
    /* A prepare arrives, and its answer is heard. */
    :: d_step { IN_DOUBT && MAY_HEAR(1) -> promised[me] = 1; hear(1, ABORT) }
    :: d_step { IN_DOUBT && MAY_HEAR(2) -> promised[me] = 2; hear(2, ABORT) }
    :: d_step { IN_DOUBT && MAY_HEAR(3) -> promised[me] = 3; hear(3, ABORT) }
    :: d_step { WISHES_COMMIT && MAY_HEAR(1) -> promised[me] = 1; hear(1, COMMIT) }
    :: d_step { WISHES_COMMIT && MAY_HEAR(2) -> promised[me] = 2; hear(2, COMMIT) }
    :: d_step { WISHES_COMMIT && MAY_HEAR(3) -> promised[me] = 3; hear(3, COMMIT) }
#ifdef REUSED_BALLOT
    :: d_step { value[3] != 0 && promised[me] <= 3 && value[4] == 0 && !has_promised_again[me] ->
        promised[me] = 3; has_promised_again[me] = true; hear(4, ABORT) }
    :: d_step { MAY_ACCEPT(4) -> accept(4) }
#endif
    /* A proposal arrives. */
    :: d_step { MAY_ACCEPT(0) -> accept(0) }
    :: d_step { MAY_ACCEPT(1) -> accept(1) }
    :: d_step { MAY_ACCEPT(2) -> accept(2) }
    :: d_step { MAY_ACCEPT(3) -> accept(3) }
    /* What was said without a register is forgotten one day. */
    :: d_step { MAY_FORGET && !HAS_REGISTER(me) && !IS_SILENT(me) -> promised[me] = 0; vote[me] = 0 }
    /* A liar denies what it has said. */
    :: d_step { IS_LIAR && !IS_SILENT(me) -> promised[me] = 0; vote[me] = 0 }
    od
}
