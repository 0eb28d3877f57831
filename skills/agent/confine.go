package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/readonly"
	"github.com/spritekit/lattice/spritekit/skill"
)

// alwaysWritable are folders that every agent can change: they hold nothing that another call uses.
var alwaysWritable = []string{"/dev", "/proc", "/tmp", "/var/tmp"}

// confineAgent has the kernel refuse changes of the read-only paths to an agent and all that it starts. The runtime's own files stay
// writable, as the private home of the agent and the events of its skills are among them.
func confineAgent(c *skill.Call, readOnly []string, spec *proc.Spec) error {
	if len(readOnly) == 0 {
		return nil
	}
	var protected []string
	for i, name := range readOnly {
		path, err := resolveReadOnly(c, name)
		if err != nil {
			return skill.BadInput(fmt.Sprintf("/read_only/%d", i), "%v", err)
		}
		protected = append(protected, path)
	}
	kept := append(slices.Clone(alwaysWritable), c.Root.Own(protocol.Dir))
	if cache := proc.Getenv(c.Env, "XDG_CACHE_HOME", ""); filepath.IsAbs(cache) {
		kept = append(kept, cache)
	}
	writable, err := readonly.Except(protected, kept)
	if err != nil {
		return err
	}
	spec.Env = append(spec.Env, "GIT_OPTIONAL_LOCKS=0") // git status writes the index only if it may
	spec.Confine = func(start func() error) error { return explainConfinement(readonly.Start(writable, start)) }
	return nil
}

// explainConfinement adds a remedy to the error of a kernel that cannot confine.
func explainConfinement(err error) error {
	if !errors.Is(err, readonly.ErrUnavailable) {
		return err
	}
	return fault.Unsupported("read_only_unavailable", "the agent shall work read-only, and the kernel of this sprite cannot enforce that").
		WithHint("use a kernel with Landlock (Linux 5.13 or later, with landlock in the list of CONFIG_LSM or lsm=), or leave read_only out")
}

// resolveReadOnly returns the path of a read-only folder, without symlinks.
func resolveReadOnly(c *skill.Call, name string) (path string, err error) {
	if path = name; !filepath.IsAbs(name) {
		if path, err = c.Root.Abs(name); err != nil {
			return "", err
		}
	}
	return filepath.EvalSymlinks(path)
}
