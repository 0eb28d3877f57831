package engine

import (
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/ir"
)

// operationOf returns the operation of the node that t visits, nil for an op that this version does not run.
func operationOf(t *machine.Thread, op ir.Op) machine.Operation {
	switch op {
	case ir.OpToolCall:
		return callOp{t}
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		return llmOp{t}
	case ir.OpHuman:
		return humanOp{t}
	case ir.OpMap:
		return mapOp{fanOut{body{t}}}
	case ir.OpParallel:
		return parallelOp{fanOut{body{t}}}
	case ir.OpLoop:
		return loopOp{body{t}}
	case ir.OpSubgraph:
		return subgraphOp{body{t}}
	case ir.OpWait:
		return waitOp{t}
	case ir.OpPack:
		return packOp{instant{t}}
	case ir.OpSwitch:
		return switchOp{instant{t}}
	case ir.OpMerge:
		return mergeOp{instant{t}}
	case ir.OpSet:
		return setOp{instant{t}}
	case ir.OpEmit:
		return emitOp{instant{t}}
	case ir.OpFail:
		return failOp{instant{t}}
	case ir.OpEnd:
		return endOp{instant{t}}
	}
	return nil
}
