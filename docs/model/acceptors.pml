/*
 * Acceptors, with the ears of the proposers; shared by trip.pml and cancel.pml, which say when a prepare
 * may arrive (IN_DOUBT, GOES_ON), and check what is chosen (check_outcome).
 */

#ifdef BLIND_DOUBT
#define IS_BLIND (true)
#else
#define IS_BLIND (false)
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
#define MAY_ACCEPT(b) (value[b] != 0 && !has_accepted[(b) * SITES + me])
#else
#define MAY_ACCEPT(b) (value[b] != 0 && !has_accepted[(b) * SITES + me] && promised[me] <= RANK(b))
#endif

active [SITES] proctype acceptor() {
end:
    do
    /* A prepare arrives, and its answer is lost, or of no use any more. */
    :: d_step { IN_DOUBT && promised[me] < 1 -> promised[me] = 1 }
    :: d_step { IN_DOUBT && promised[me] < 2 -> promised[me] = 2 }
    :: d_step { IN_DOUBT && promised[me] < 3 -> promised[me] = 3 }
    /* A prepare arrives, and its answer is heard. Whoever gives up or is in doubt wishes ABORT. */
    :: d_step { IN_DOUBT && promised[me] < 1 && value[1] == 0 -> promised[me] = 1; hear(1, ABORT) }
    :: d_step { IN_DOUBT && promised[me] < 2 && value[2] == 0 -> promised[me] = 2; hear(2, ABORT) }
    :: d_step { IN_DOUBT && promised[me] < 3 && value[3] == 0 -> promised[me] = 3; hear(3, ABORT) }
#ifndef CAN_CARRY_ON
    /* A traveller who goes on wishes COMMIT. */
    :: d_step { GOES_ON && promised[me] < 1 && value[1] == 0 -> promised[me] = 1; hear(1, COMMIT) }
    :: d_step { GOES_ON && promised[me] < 2 && value[2] == 0 -> promised[me] = 2; hear(2, COMMIT) }
    :: d_step { GOES_ON && promised[me] < 3 && value[3] == 0 -> promised[me] = 3; hear(3, COMMIT) }
#endif
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
    od
}
