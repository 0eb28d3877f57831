package lattice

import (
	"encoding/json"
	"fmt"
)

// DecodeFact reads the body of a fact entry. A type that this version does not know is refused, never skipped: a
// journal that is read in part would fold to another state.
func DecodeFact(kind string, body json.RawMessage) (Fact, error) {
	switch kind {
	case "RunStarted":
		return decode[RunStarted](body)
	case "RunForked":
		return decode[RunForked](body)
	case "Rewound":
		return decode[Rewound](body)
	case "PowerLost":
		return decode[PowerLost](body)
	case "Prepared":
		return decode[Prepared](body)
	case "CallFinished":
		return decode[CallFinished](body)
	case "CallBlocked":
		return decode[CallBlocked](body)
	case "CallSuspended":
		return decode[CallSuspended](body)
	case "CallLost":
		return decode[CallLost](body)
	case "BoundaryTaken":
		return decode[BoundaryTaken](body)
	case "Restored":
		return decode[Restored](body)
	case "Answered":
		return decode[Answered](body)
	case "ActionDone":
		return decode[ActionDone](body)
	case "ActionNoted":
		return decode[ActionNoted](body)
	case "ActionDecided":
		return decode[ActionDecided](body)
	case "ActionSettled":
		return decode[ActionSettled](body)
	case "TimerFired":
		return decode[TimerFired](body)
	case "CommandFailed":
		return decode[CommandFailed](body)
	case "CancelRequested":
		return decode[CancelRequested](body)
	case "ModelAnswered":
		return decode[ModelAnswered](body)
	case "ModelAskedAgain":
		return decode[ModelAskedAgain](body)
	case "Attested":
		return decode[Attested](body)
	}
	return nil, fmt.Errorf("unknown fact type %q; a newer lattice wrote this journal", kind)
}

func decode[F Fact](body json.RawMessage) (Fact, error) {
	var f F
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("decode %s: %w", f.FactType(), err)
	}
	return f, nil
}
