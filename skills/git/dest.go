package git

import (
	"path"

	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// judgeDest refuses the workspace, the runtime's folder, and a .git or a path in one as the place of a new work tree. In a
// .git, git would take files that others wrote for its own configuration and hooks.
func judgeDest(c *skill.Call, dest, what string) error {
	if dest == "." || c.Root.Reserved(dest) {
		return fault.Unsafe("reserved_path", "%s cannot take the place of %s", what, dest).WithHint("name a folder below the workspace")
	}
	parent, err := c.Root.Real(path.Dir(dest))
	if err != nil {
		return err
	}
	for _, name := range []string{dest, path.Join(parent, path.Base(dest))} {
		if problem := patch.Judge(name, false); problem != "" {
			return fault.Unsafe("git_internals", "%s cannot take the place of %s: it %s", what, dest, problem).
				WithHint("name a folder that is outside of any .git")
		}
	}
	return nil
}
