// Package delegate runs the native engine in a second process: it is heavy, rarely needed, and would make the start of
// every skill slower. Engine is the client, which spritekit has; Serve is the other end, which spritekit-extra has.
//
// One process does one operation: it reads one request from stdin and writes lines to stdout: progress, chunks of a
// bundle, and one reply, the last line. Both ends are JSON. Credentials travel on stdin alone, never in arguments or the
// environment.
package delegate

import (
	"encoding/json"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Command is the argument that makes the second file serve one operation.
const Command = "git-engine"

// request is one operation: of the engine without At, else of the repository there.
type request struct {
	Method string          `json:"method"`
	Root   string          `json:"root,omitempty"` // the workspace
	At     *location       `json:"at,omitempty"`
	Spec   json.RawMessage `json:"spec"`
}

// location is an engine.Location as it travels.
type location struct {
	Name      string           `json:"name"`
	Dir       string           `json:"dir"`
	GitDir    string           `json:"git_dir"`
	CommonDir string           `json:"common_dir"`
	Config    gitconfig.Config `json:"config"`
}

// line is one line of output; exactly one of its fields is set. The last line has Result or Error.
type line struct {
	Progress *engine.Progress `json:"progress,omitempty"`
	Data     []byte           `json:"data,omitempty"` // of a bundle
	Result   json.RawMessage  `json:"result,omitempty"`
	Error    *skill.Error     `json:"failure,omitempty"`
}

// nothing is the result of an operation that has none.
type nothing struct{}
