package timeline

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
)

// DescribeLimit returns the limits of a budget as text.
func DescribeLimit(limit budget.Amount) string {
	if limit == (budget.Amount{}) {
		return "none"
	}
	return limit.String()
}

// DescribeRaise returns the amount by which people raised a budget as text.
func DescribeRaise(by budget.Amount) string {
	if by == (budget.Amount{}) {
		return "-"
	}
	return by.String()
}

// DescribeBudgets returns the amounts that calls of a run have spent and reserved, with the limits of the run, as text; "" if
// there are none.
func DescribeBudgets(views []api.BudgetView) string {
	for _, v := range views {
		if kind, _ := v.Scope.Split(); kind != budget.Run {
			continue
		}
		var parts []string
		if v.Spent.MicroUSD > 0 || v.Spent.Tokens > 0 || v.Limit != (budget.Amount{}) { // time alone stands in the timeline
			parts = append(parts, v.Spent.String())
		}
		if v.Reserved != (budget.Amount{}) {
			parts = append(parts, v.Reserved.String()+" reserved")
		}
		if limit := v.Limit; limit != (budget.Amount{}) {
			for _, u := range budget.Units() {
				if limit.Of(u) > 0 {
					limit = limit.With(u, limit.Of(u)+v.Raised.Of(u))
				}
			}
			parts = append(parts, "limit "+limit.String())
		}
		return strings.Join(parts, "; ")
	}
	return ""
}
