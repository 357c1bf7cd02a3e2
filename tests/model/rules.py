"""The rules that make the protocol safe, by the name of what goes wrong without them."""

RULES = {
    "shrinkBeforeCas": "a follower that is thrown out counts until ZooKeeper has confirmed it (KIP-497)",
    "noMaximalIsr": "a follower that is let in counts from the moment of the request (KIP-497)",
    "unfencedFetch": "a fetch of another leader epoch is refused (KIP-320)",
    "lenOnly": "a follower cuts its log by leader epochs, not by length (KIP-101)",
    "blindElect": "an election is a compare-and-set on what was read",
    "noEpochStart": "a follower joins only with all that its leader had when it began to lead (KAFKA-7128)",
    "truncToHW": "a follower never cuts its log to its high watermark (KAFKA-1211)",
    "unfencedTruncate": "a follower cuts its log only at the word of the leader of its own epoch (KIP-320)",
    "noBounce": "a broker that restarted has failed first (KAFKA-1120)",
    "noBeCheck": "only the life of a broker that fetched joins the ISR (KIP-903)",
    "noKip380": "an order meant for an earlier life of a broker is refused (KIP-380)",
    "formerLifeFetch": "a fetch of a follower's former life is not counted after one of its present life (KIP-903)",
    "outlivedEligible": "nothing is committed while ZooKeeper calls one eligible that may lack it, whatever min.insync (I13)",
    "emptyDisk": "a broker whose disk is empty, or an older copy, says so; if it was the last in sync, nobody leads (I14)",
    "secondMove": "whoever holds records stays a replica until the last of several moves has ended",
    "failedElection": "a replica that cannot begin its epoch says so, and another is elected",
    "oldEpoch": "a restarted broker does not lead in the epoch of its former incarnation (I10)",
    "cutOffElect": "of the followers that do not reach their leader, only one in the ISR or eligible takes its place (I8)",
    "suspectTail": "a broker that may have lost its tail is not elected while another in-sync replica is known (I14)",
}
