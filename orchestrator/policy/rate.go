package policy

// Rate limits how often one person or token may ask.
type Rate struct {
	// Intents is the number of intents that one person or token may create in an hour.
	Intents int `toml:"intents_per_hour" json:"intents_per_hour,omitempty"`
}

// Older says what becomes of older intents of the same kind, subject and repository that have not ended.
type Older string

// The values of Older.
const (
	KeepOlder   Older = "keep"
	CancelOlder Older = "cancel"
)

// RateName is the name of the rule that limits the number of intents.
const RateName = "rate.intents_per_hour"

// Rate returns the number of intents that one person or token may create in an hour, 0 without a limit, and the rule that says
// so: that of the first of the server's layers that has one.
func (p Policy) Rate() (limit int, rule Rule) {
	for _, l := range p.ceiling {
		if l.Rate.Intents > 0 {
			return l.Rate.Intents, l.rule(RateName)
		}
	}
	return 0, Rule{Source: defaultSource, Name: RateName}
}

// Older returns what becomes of older intents of a kind: the first of the server's layers that has a rule decides.
func (p Policy) Older(kind string) Older {
	for _, l := range p.ceiling {
		if o := l.Intents[kind].Older; o != "" {
			return o
		}
	}
	return KeepOlder
}
