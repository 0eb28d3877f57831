package store

var (
	bucketMeta     = []byte("meta")
	bucketRuns     = []byte("runs")
	bucketPrograms = []byte("programs")
	bucketEntries  = []byte("entries")
	bucketHeads    = []byte("heads")
	bucketIndex    = []byte("index")
	bucketDedupe   = []byte("dedupe")
	bucketStates   = []byte("states")

	buckets = [][]byte{
		bucketMeta, bucketRuns, bucketPrograms, bucketEntries, bucketHeads, bucketIndex, bucketDedupe, bucketStates,
		bucketOrder, bucketOpen, bucketActions, bucketLookup, bucketFlows, bucketAudit, bucketAuditIndex, bucketArtifacts, bucketIntents,
	}

	keySchema = []byte("schema")
)

var bucketActions = []byte("actions")

var (
	bucketAudit      = []byte("audit")
	bucketAuditIndex = []byte("auditindex")
)

var (
	bucketOrder = []byte("order")
	bucketOpen  = []byte("open")

	indexBuckets = [][]byte{bucketOrder, bucketOpen, bucketActions, bucketLookup, bucketFlows, bucketAuditIndex, bucketArtifacts, bucketIntents}
)

var (
	bucketLookup = []byte("lookup")
	bucketFlows  = []byte("flows")

	lookups = [][]byte{bucketLookup, bucketFlows}
)

var (
	bucketArtifacts = []byte("artifacts") // number of the run + sequence → run id
	bucketIntents   = []byte("intents")   // 's' + sequence → id, and 'i' + id → sequence
)
