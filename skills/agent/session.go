package agent

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Files of sessions, in the runtime's folder of the workspace and never in the repository:
//
//	.lattice/agents/homes/HOME/           HOME of the agent's processes; its own record of the session is in there
//	.lattice/agents/sessions/HASH.json    home of a session, and its usage so far
//	.lattice/agents/calls/CALL.json       a call that waits for an answer: its question and session
const (
	homesDir    = ".lattice/agents/homes"
	sessionsDir = ".lattice/agents/sessions"
	waitingDir  = ".lattice/agents/calls"
	maxRecord   = 64 << 20 // it names all files that changed
)

const (
	modeNew    = "new"
	modeResume = "resume"
	modeFork   = "fork"
)

// session is the record of a session.
type session struct {
	Agent string     `json:"agent"`
	ID    string     `json:"id"`
	Home  string     `json:"home"` // name below homesDir, "" if it is the sprite's
	Base  tally.Base `json:"base"`
}

func sessionFile(agent, id string) string {
	return fmt.Sprintf("%s/%x.json", sessionsDir, sha256.Sum256([]byte(agent+"\x00"+id)))
}

// loadSession reads the session of an earlier call.
func loadSession(c *skill.Call, agent, id string) (session, error) {
	var s session
	raw, err := c.Root.ReadFile(sessionFile(agent, id), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fault.NotFound("not_found", "%s has no session %q in this sprite", agent, id).
			WithHint("session_id in the result of an earlier agent.run names one; a new session needs none")
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err == nil && (s.Agent != agent || s.ID != id || s.Home != "" && s.Home != filepath.Base(s.Home) || strings.HasPrefix(s.Home, ".")) {
		err = errors.New("it is the record of another session")
	}
	if err != nil {
		return s, fmt.Errorf("read the record of session %s: %w", id, err)
	}
	return s, nil
}

func (s session) save(c *skill.Call) error {
	if s.ID == "" {
		return nil
	}
	return saveRecord(c, sessionsDir, sessionFile(s.Agent, s.ID), s)
}

// pending is the record of a call that waits for an answer, or that works.
type pending struct {
	Session  session        `json:"session"`
	Question skill.Question `json:"question,omitzero"`
	// Permission is the request that a person was asked about, without its arguments, if it was not a skill that asked.
	Permission *acp.Request       `json:"permission,omitempty"`
	Limit      *usageLimit        `json:"limit,omitempty"`   // that the call waits for, if it asked nothing
	Running    bool               `json:"running,omitempty"` // the agent works; see progress.go
	SlowTurns  bool               `json:"slow_turns,omitempty"`
	Answers    []permissionAnswer `json:"answers,omitempty"` // to the earlier ones of the call
	SoFar      tally.SoFar        `json:"so_far"`
	Inherited  tally.SoFar        `json:"inherited,omitzero"` // part of SoFar; see launch
	Changed    []string           `json:"files_changed,omitempty"`
	Said       string             `json:"said,omitempty"` // record of the conversation, for a session that cannot be resumed
}

func waitingFile(c *skill.Call) string { return waitingDir + "/" + c.ID + ".json" }

func (p pending) save(c *skill.Call) error { return saveRecord(c, waitingDir, waitingFile(c), p) }

// loadPending reads the record of this resumed call.
func loadPending(c *skill.Call) (pending, error) {
	var p pending
	raw, err := c.Root.ReadFile(waitingFile(c), maxRecord)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("read the question of call %s: %w", c.ID, err)
	}
	return p, nil
}

// saveRecord writes a record as JSON.
func saveRecord(c *skill.Call, dir, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := c.Root.MkdirAll(dir); err != nil {
		return err
	}
	return c.Root.WriteFile(name, append(raw, '\n'), 0o600)
}

// expandSession replaces the variables of a path of a session's file. ok is false if there can be no such file.
func expandSession(path, id string) (expanded string, ok bool) {
	return strings.NewReplacer("{home}", "", "{session}", id, "{session_head}", id[:min(8, len(id))]).Replace(path), strings.Trim(id, ".") != "" && !strings.ContainsAny(id, `/\*?[`)
}
