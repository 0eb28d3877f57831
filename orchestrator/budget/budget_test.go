package budget

import (
	"math"
	"testing"
	"time"
)

func TestFoldOfFacts(t *testing.T) {
	t.Parallel()
	reserve := Fact{Op: Reserved, ID: "a", Scopes: []Scope{"run:r", "day:d"}, Amount: Amount{MicroUSD: 100, Tokens: 10}}
	settle := Fact{Op: Settled, ID: "a", Amount: Amount{MicroUSD: 40, Tokens: 12}}
	tests := []struct {
		name  string
		facts []Fact
		want  Account
		open  bool
	}{
		{"reserved", []Fact{reserve}, Account{Reserved: Amount{MicroUSD: 100, Tokens: 10}}, true},
		{"reserved twice under one id", []Fact{reserve, reserve}, Account{Reserved: Amount{MicroUSD: 100, Tokens: 10}}, true},
		{"settled with less and with more", []Fact{reserve, settle}, Account{Spent: Amount{MicroUSD: 40, Tokens: 12}}, false},
		{"settled twice", []Fact{reserve, settle, settle}, Account{Spent: Amount{MicroUSD: 40, Tokens: 12}}, false},
		{"released", []Fact{reserve, {Op: Released, ID: "a", Amount: Amount{Tokens: 5}}}, Account{}, false},
		{"reserved again after it was settled", []Fact{reserve, settle, reserve}, Account{Spent: Amount{MicroUSD: 40, Tokens: 12}}, false},
		{"settled without a reservation", []Fact{settle}, Account{}, false},
		{"lost: settled as reserved", []Fact{reserve, {Op: Settled, ID: "a", Amount: reserve.Amount}}, Account{Spent: Amount{MicroUSD: 100, Tokens: 10}}, false},
		{"raised", []Fact{{Op: Raised, Scopes: []Scope{"run:r"}, Amount: Amount{Tokens: 7}}}, Account{Raised: Amount{Tokens: 7}}, false},
		{"negative amounts are ignored", []Fact{reserve, {Op: Settled, ID: "a", Amount: Amount{MicroUSD: -1}}}, Account{Reserved: Amount{MicroUSD: 100, Tokens: 10}}, true},
		{"sums do not overflow", []Fact{
			{Op: Raised, Scopes: []Scope{"run:r"}, Amount: Amount{Tokens: math.MaxInt64}}, {Op: Raised, Scopes: []Scope{"run:r"}, Amount: Amount{Tokens: 1}},
		}, Account{Raised: Amount{Tokens: math.MaxInt64}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l Ledger
			for _, f := range tt.facts {
				l.Apply(f)
			}
			if got := l.Account("run:r"); got != tt.want {
				t.Errorf("account = %+v, want %+v", got, tt.want)
			}
			if _, open := l.Open("a"); open != tt.open {
				t.Errorf("open = %v, want %v", open, tt.open)
			}
		})
	}
}

func TestRefusedUntilReserved(t *testing.T) {
	t.Parallel()
	var l Ledger
	l.Apply(Fact{Op: Refused, ID: "a"})
	if !l.WasRefused("a") {
		t.Fatal("the refusal is not known")
	}
	l.Apply(Fact{Op: Reserved, ID: "a"})
	l.Apply(Fact{Op: Refused, ID: "a"}) // from another process, late
	if l.WasRefused("a") {
		t.Error("a call that has begun counts as refused")
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	have := []Fact{
		{Op: Reserved, ID: "a", Scopes: []Scope{"run:r"}, Amount: Amount{MicroUSD: 30}},
		{Op: Reserved, ID: "b", Scopes: []Scope{"run:r"}, Amount: Amount{MicroUSD: 50}},
		{Op: Settled, ID: "b", Amount: Amount{MicroUSD: 50}},
	}
	limit := func(micro int64) []Limit {
		return []Limit{{Scope: "run:r", Amount: Amount{MicroUSD: micro}, Rules: map[Unit]string{Money: "policy.toml:1: budgets.run.usd"}}}
	}
	tests := []struct {
		name   string
		need   Need
		limits []Limit
		want   Amount
		short  bool
		passes bool
	}{
		{"no limits", Need{Most: Amount{MicroUSD: 9}, Guess: Amount{Tokens: 5}}, nil, Amount{MicroUSD: 9}, false, false},
		{"exactly the rest", Need{Most: Amount{MicroUSD: 20}}, limit(100), Amount{MicroUSD: 20}, false, false},
		{"one too many; fits once the other call ends", Need{Most: Amount{MicroUSD: 21}}, limit(100), Amount{}, true, true},
		{"never fits", Need{Most: Amount{MicroUSD: 51}}, limit(100), Amount{}, true, false},
		{"a guess is cut to the rest", Need{Guess: Amount{MicroUSD: 1000}}, limit(100), Amount{MicroUSD: 20}, false, false},
		{"a guess needs a rest", Need{Guess: Amount{MicroUSD: 1000}}, limit(80), Amount{}, true, true},
		{"a guess without a limit is not reserved", Need{Guess: Amount{Tokens: 1000}}, limit(100), Amount{}, false, false},
		{"a call that takes nothing fits an empty budget", Need{}, limit(1), Amount{}, false, false},
		{"the narrower limit decides", Need{Most: Amount{MicroUSD: 15}}, append(limit(100), Limit{Scope: "day:d", Amount: Amount{MicroUSD: 10}}), Amount{}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l Ledger
			for _, f := range have {
				l.Apply(f)
			}
			got, short := l.Fit(tt.need, tt.limits)
			if got != tt.want || (short != nil) != tt.short {
				t.Fatalf("Fit = %v, %v; want %v, short %v", got, short, tt.want, tt.short)
			}
			if short != nil && short.Passes() != tt.passes {
				t.Errorf("passes = %v, want %v", short.Passes(), tt.passes)
			}
		})
	}
	var l Ledger
	for _, f := range have {
		l.Apply(f)
	}
	_, short := l.Fit(Need{Most: Amount{MicroUSD: 51}}, limit(100))
	want := "the budget of the run r is $0.0001, of which $0.00005 is spent and $0.00003 reserved; the call could take $0.000051 (the rule is policy.toml:1: budgets.run.usd)"
	if short.Error() != want {
		t.Errorf("error:\n got %s\nwant %s", short, want)
	}
	if short.Missing() != 31 {
		t.Errorf("missing = %d, want 31", short.Missing())
	}
	l.Apply(Fact{Op: Raised, Scopes: []Scope{"run:r"}, Amount: Amount{MicroUSD: 31}})
	if _, short := l.Fit(Need{Most: Amount{MicroUSD: 51}}, limit(100)); short != nil {
		t.Errorf("after the limit was raised: %v", short)
	}
}

func TestDayIsUTC(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 5*3600)
	before, after := time.Date(2026, 3, 1, 4, 59, 59, 0, zone), time.Date(2026, 3, 1, 5, 0, 0, 0, zone)
	if got := DayOf(before); got != "day:2026-02-28" {
		t.Errorf("DayOf(%v) = %s", before, got)
	}
	if got := DayOf(after); got != "day:2026-03-01" {
		t.Errorf("DayOf(%v) = %s", after, got)
	}
}

func TestMicroUSD(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dollars float64
		want    int64
	}{{0.1 + 0.2, 300_000}, {0.0000001, 1}, {5, 5_000_000}, {-1, 0}, {math.NaN(), 0}, {math.Inf(1), math.MaxInt64}, {1e300, math.MaxInt64}} {
		if got := MicroUSD(tt.dollars); got != tt.want {
			t.Errorf("MicroUSD(%v) = %d, want %d", tt.dollars, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	a := Amount{MicroUSD: 1_250_000, Tokens: 7, Millis: 90_000}
	if got, want := a.String(), "$1.25, 7 tokens, 1m30s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Amount{}).String(); got != "nothing" {
		t.Errorf("%q", got)
	}
}
