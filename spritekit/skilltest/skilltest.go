// Package skilltest runs the contract of skills (package contract) as Go tests, over any executable:
//
//	func TestMySkill(t *testing.T) {
//		skilltest.Run(t, skilltest.Target{
//			Exe: "/skills/my.skill", Skill: "my.skill", Input: `{"path":"a"}`,
//			Prepare: func(dir string) error { return os.WriteFile(dir+"/a", nil, 0o644) },
//		})
//	}
package skilltest

import (
	"os"
	"testing"

	"github.com/spritekit/lattice/spritekit/contract"
)

// Target is the executable under test.
type Target = contract.Target

// Run checks target against the contract, a subtest for each promise.
func Run(t *testing.T, target Target) {
	t.Helper()
	target.Env = append([]string{"PATH=" + os.Getenv("PATH")}, target.Env...)
	for _, check := range contract.Checks() {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, target) })
	}
}
