package confine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/subids"

	"github.com/spritekit/lattice/orchestrator/host/core"
)

// A probe starts and ends a sandbox, which is most of the time of a short command. So its result is kept in the host's
// folder, for as long as the system runs, the program is the same and its rights are. Only a probe that found nothing
// in the way is kept: a remedy takes effect with the next command. Nothing is trusted that was not true once: a sandbox
// that later does not start at its level does not start, and the kept result goes.

// probeRecord is a kept result.
type probeRecord struct {
	Key       string             `json:"key"`
	Isolation spec.Level         `json:"isolation"`
	Limits    []spec.Enforcement `json:"limits"`
	Redirects bool               `json:"redirects"`
	OwnIDs    bool               `json:"own_ids"`
	SubIDs    subids.Range       `json:"sub_ids"`
	OneUser   string             `json:"one_user,omitempty"`
}

func (cf *Confiner) probeFile() string { return filepath.Join(cf.Config.Dir, "probe.json") }

// probeKey changes with everything that a probe's result depends on.
func (cf *Confiner) probeKey() string {
	sum := sha256.New()
	self, err := os.Stat(cf.Config.Self)
	if err != nil || core.BootID() == "" {
		return ""
	}
	fmt.Fprintf(sum, "%s %d %d %d %q %q %q %t %s\n", core.BootID(), self.Size(), self.ModTime().UnixNano(), os.Getuid(), cf.Config.Network.Preset, cf.Config.Tools, cf.Config.Skills, cf.Config.OneUser, subids.State())
	for _, path := range []string{
		"/proc/self/cgroup", "/proc/self/uid_map", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/self/attr/current",
	} {
		text, _ := os.ReadFile(path) // missing on some systems, and that is then part of the key
		fmt.Fprintf(sum, "%s %q\n", path, text)
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(status) {
		for _, name := range []string{"Groups:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"} {
			if bytes.HasPrefix(line, []byte(name)) {
				sum.Write(line)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// recallProbe returns the kept result for the key.
func (cf *Confiner) recallProbe(key string) (Confinement, bool) {
	raw, err := os.ReadFile(cf.probeFile())
	var kept probeRecord
	if err != nil || key == "" || json.Unmarshal(raw, &kept) != nil || kept.Key != key {
		return Confinement{}, false
	}
	return Confinement{Isolation: kept.Isolation, Limits: kept.Limits, Text: "namespaces", Netns: true, Redirects: kept.Redirects, OwnIDs: kept.OwnIDs, SubIDs: kept.SubIDs, OneUser: kept.OneUser}, true
}

// keepProbe keeps a result that is as good as it can be. Without it the next command probes again.
func (cf *Confiner) keepProbe(key string, c Confinement) {
	whole := key != "" && c.Isolation != "" && !c.Plain && c.Netns && c.NoRedirect == "" && c.NoRoot == "" && c.Text == "namespaces"
	for _, l := range c.Limits {
		whole = whole && l.Why == ""
	}
	if !whole {
		cf.ForgetProbe()
		return
	}
	raw, err := json.Marshal(probeRecord{Key: key, Isolation: c.Isolation, Limits: c.Limits, Redirects: c.Redirects, OwnIDs: c.OwnIDs, SubIDs: c.SubIDs, OneUser: c.OneUser})
	if err == nil {
		temp := cf.probeFile() + ".new" // a torn file is not valid JSON, and nothing else writes here
		if err = os.WriteFile(temp, raw, 0o600); err == nil {
			err = os.Rename(temp, cf.probeFile())
		}
	}
	if err != nil {
		cf.Config.Log.Debug().Err(err).Msg("keep what the probe of the sandbox found")
	}
}

func (cf *Confiner) ForgetProbe() { _ = os.Remove(cf.probeFile()) } // one that stays has another key, or is found wrong again
