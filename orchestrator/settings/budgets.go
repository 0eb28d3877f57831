package settings

import (
	"math"
	"strings"
)

// Budgets limit the money, tokens and time of questions to models and calls of agents. The keys are those of policy.toml.
//
//	[budgets.day]
//	usd = 20
//	time = "4h"
type Budgets struct {
	// Run is the budget of one run.
	Run Budget `json:"run,omitzero"`
	// Session is the budget of one run, such as that of a loop, with its forks and the runs that go on from it.
	Session Budget `json:"session,omitzero"`
	// WorkItem is the budget of all runs for one work item, and of their forks.
	WorkItem Budget `json:"work_item,omitzero"`
	// Repository is the budget of all runs on one repository, ever.
	Repository Budget `json:"repository,omitzero"`
	// Day is the budget of all runs on one day, in UTC.
	Day Budget `json:"day,omitzero"`
}

// Budget is a sum of money, tokens and time; a quantity that is left out is not limited.
type Budget struct {
	// USD is an amount of US dollars.
	USD *float64 `json:"usd,omitempty"`
	// Tokens is a number of tokens, those that are read and those that are written.
	Tokens *int `json:"tokens,omitempty"`
	// Time is the time that calls take, such as "2h".
	Time Duration `json:"time,omitempty"`
}

func checkBudgets(b Budgets) (found []Finding) {
	for name, limit := range map[string]Budget{"run": b.Run, "session": b.Session, "work_item": b.WorkItem, "repository": b.Repository, "day": b.Day} {
		bad := func(key string) {
			found = append(found, Finding{Code: CodeValue, Key: strings.Join([]string{"budgets", name, key}, "."), Message: "a budget is more than 0", Hint: "leave it out to set no limit"})
		}
		if limit.USD != nil && (!(*limit.USD > 0) || math.IsInf(*limit.USD, 0)) {
			bad("usd")
		}
		if limit.Tokens != nil && *limit.Tokens <= 0 {
			bad("tokens")
		}
	}
	return found
}
