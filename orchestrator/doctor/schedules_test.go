package doctor

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// Schedules that nothing follows are a finding with a remedy.
func TestSchedulesWithoutALeader(t *testing.T) {
	env := &setup.Env{Home: t.TempDir()}
	if found := lookAtSchedules(t.Context(), env); found != nil {
		t.Errorf("without schedules: %+v", found)
	}
	env.Settings.Schedules = map[string]settings.Schedule{"nightly": {}}
	found := lookAtSchedules(t.Context(), env)
	if len(found) != 1 || found[0].Status != Warn || !strings.Contains(found[0].Remedy, "lattice serve") || !strings.Contains(found[0].Detail, "1 schedule of the settings") {
		t.Errorf("without a leader: %+v", found)
	}
	if c := judgeSchedules(2, true); c.Status != OK {
		t.Errorf("followed: %+v", c)
	}
}
