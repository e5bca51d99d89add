/*
 * Ballots of a question that is answered COMMIT or ABORT once, and what is remembered and said about
 * them; shared by trip.pml, cancel.pml and change.pml. The first part: what the parties look at.
 */

#define SITES 3
#define MAJORITY 2
#ifndef PARTIES
#define PARTIES SITES                   /* participants; those after the third are no acceptors */
#endif

#ifdef REUSED_BALLOT
/* Ballot 4 stands for the second use of ballot 3: other messages, the same place in the order. */
#define BALLOTS 5
#define RANK(b) ((b) == 4 -> 3 : (b))
#define VOTE_RANK(v) ((v) == 5 -> 4 : (v))
#else
#define BALLOTS 4
#define RANK(b) (b)
#define VOTE_RANK(v) (v)
#endif

/* The highest ballot that is used: two above the traveller's show what three do in a tenth of the states, where a
 * configuration has more to search. */
#ifdef FEW_BALLOTS
#define LAST_BALLOT 2
#else
#define LAST_BALLOT 3
#endif

/* Values of a ballot; 0: nothing proposed. */
#define COMMIT 1
#define ABORT 2

/* What acceptors remember. Votes are ballots plus one; 0: no vote. */
byte promised[SITES];
byte vote[SITES];
bool has_accepted[BALLOTS * SITES];     /* every vote ever granted: its answer may still be heard */

/* What proposers have sent, and what they have heard. */
byte value[BALLOTS];
byte heard[BALLOTS];                    /* promises, until the value is proposed */
byte best[BALLOTS];                     /* highest vote among them, plus one; 0: none */
#ifdef REUSED_BALLOT
bool has_promised_again[SITES];
#endif

#define VOTES(b) \
    (has_accepted[(b) * SITES] + has_accepted[(b) * SITES + 1] + has_accepted[(b) * SITES + 2])
#define IS_CHOSEN(b, v) (value[b] == v && VOTES(b) >= MAJORITY)
#ifdef REUSED_BALLOT
#define KNOWN(v) (IS_CHOSEN(0, v) || IS_CHOSEN(1, v) || IS_CHOSEN(2, v) || IS_CHOSEN(3, v) \
    || IS_CHOSEN(4, v))
#else
#define KNOWN(v) (IS_CHOSEN(0, v) || IS_CHOSEN(1, v) || IS_CHOSEN(2, v) || IS_CHOSEN(3, v))
#endif

/* Which site a process is: the traveller's _pid is 0, then come participants, then acceptors. */
#define mine (_pid - 1)
#define me (_pid - 1 - PARTIES)

/* True for an acceptor that has said nothing about the attempt. Only then may its hold come, which opens
 * the register: what was said without one was said to anybody. */
#define IS_SILENT(s) (promised[s] == 0 && vote[s] == 0)
