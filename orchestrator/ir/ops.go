package ir

// Op is the operation of a node.
type Op string

const (
	// Deterministic, and calls of skills.
	OpToolCall Op = "TOOL_CALL"
	OpPack     Op = "PACK"
	OpMerge    Op = "MERGE"
	OpSwitch   Op = "SWITCH"
	OpMap      Op = "MAP"
	OpParallel Op = "PARALLEL"
	OpLoop     Op = "LOOP"
	OpSubgraph Op = "SUBGRAPH"
	OpSet      Op = "SET"
	OpEmit     Op = "EMIT"
	OpWait     Op = "WAIT"
	OpHuman    Op = "HUMAN"
	OpFail     Op = "FAIL"
	OpEnd      Op = "END"

	// Models; see llm.go.
	OpLLMExtract  Op = "LLM_EXTRACT"
	OpLLMClassify Op = "LLM_CLASSIFY"
	OpLLMChoose   Op = "LLM_CHOOSE"
	OpLLMWrite    Op = "LLM_WRITE"
)

// Ops lists every op of the format, in the order of the constants. This lattice runs them all.
func Ops() []Op {
	return []Op{
		OpToolCall, OpPack, OpMerge, OpSwitch, OpMap, OpParallel, OpLoop, OpSubgraph, OpSet, OpEmit, OpWait, OpHuman, OpFail, OpEnd,
		OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite,
	}
}

// OpNames are ops as text, for hints.
func OpNames(ops []Op) []string {
	out := make([]string, len(ops))
	for i, op := range ops {
		out[i] = string(op)
	}
	return out
}

// LLM reports whether the op asks a model.
func (op Op) LLM() bool {
	return op == OpLLMExtract || op == OpLLMClassify || op == OpLLMChoose || op == OpLLMWrite
}
