// Package notify holds notify.user: it asks the orchestrator to tell its user something, and goes on. Skills is the list,
// user the work: one ACTION_REQUEST that does not block. Nothing is sent from inside the sprite, and whether anybody
// read it is never known there.
package notify

import (
	"cmp"
	"context"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{{Name: "notify.user", Run: skill.Typed(notifyUser)}}
}

type data struct {
	Requested bool `json:"requested"`
}

// notifyUser never waits: a notification that nobody reads must not stop the work.
func notifyUser(_ context.Context, c *skill.Call, p protocol.NotifyUser) (*data, error) {
	p.Level = cmp.Or(p.Level, protocol.LevelInfo)
	if err := check(p); err != nil {
		return nil, err
	}
	return &data{true}, propose.Tell(c, protocol.ActionNotifyUser, p)
}

func check(p protocol.NotifyUser) error {
	switch p.Level {
	case protocol.LevelInfo, protocol.LevelWarning, protocol.LevelError:
	default:
		return skill.BadInput("/level", "%q is none of info, warning, error", p.Level)
	}
	if err := propose.Line("/title", p.Title, protocol.MaxNotifyTitle); err != nil {
		return err
	}
	if err := propose.Optional("/body", p.Body, protocol.MaxNotifyBody); err != nil {
		return err
	}
	if p.Link != "" {
		if err := propose.Link("/link", p.Link); err != nil {
			return err
		}
	}
	if p.Channel != "" {
		return propose.Name("/channel", p.Channel)
	}
	return nil
}
