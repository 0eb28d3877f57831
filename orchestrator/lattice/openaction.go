package lattice

// ActionChange is how a fact changes an action that no run waits for.
type ActionChange struct {
	Key string
	// Open says that a person has to decide on the action, or that its outcome is not known.
	Open bool
	// Decided says that the fact is a decision or follows from one. A request that is noted again, after a loss of power,
	// does not undo a decision.
	Decided bool
}

// ChangeAction reads how a fact changes such an action. ok is false for facts about other things.
func ChangeAction(e Entry) (c ActionChange, ok bool, err error) {
	if e.Kind != EntryFact {
		return c, false, nil
	}
	switch e.Type {
	case "ActionNoted", "ActionDecided", "ActionSettled":
	default:
		return c, false, nil
	}
	fact, err := DecodeFact(e.Type, e.Body)
	if err != nil {
		return c, false, err
	}
	switch f := fact.(type) {
	case ActionNoted:
		c = ActionChange{Key: f.Action.Key, Open: f.Verdict == Ask || f.Begun}
	case ActionDecided:
		c = ActionChange{Key: f.Key, Open: f.Decision == Approve && !f.ByHand, Decided: true}
	case ActionSettled:
		c = ActionChange{Key: f.Key, Open: !f.OK, Decided: true}
	}
	return c, c.Key != "", nil
}
