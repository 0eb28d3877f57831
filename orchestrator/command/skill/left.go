package skill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A sprite that was made for one call is removed by the process that made it. While that lives it holds a lock on a file
// of the sprite's name; a file that can be locked is that of a process which was killed, and its sprite is removed by the
// next call.

func callsDir(env *setup.Env) string { return filepath.Join(env.Home, "calls") }

// claimSprite takes the lock of a sprite that is about to be made. release gives it back once the sprite is gone.
func claimSprite(env *setup.Env, sprite string) (release func(), err error) {
	if env.Home == "" {
		return func() {}, nil // without a home it cannot be remembered
	}
	if err := os.MkdirAll(callsDir(env), 0o700); err != nil {
		return nil, fmt.Errorf("remember the sprite of a call: %w", err)
	}
	name := filepath.Join(callsDir(env), sprite)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, env.SpritesURL)
	}
	if err != nil {
		return nil, fmt.Errorf("remember the sprite of a call: %w", err)
	}
	return func() {
		_ = os.Remove(name) // the next call tries again
		f.Close()
	}, nil
}

// removeLeftSprites removes the sprites of calls whose process was killed. Those that it cannot remove now stay for the next call.
func removeLeftSprites(ctx context.Context, env *setup.Env, c *sprites.Client) {
	entries, err := os.ReadDir(callsDir(env))
	if err != nil {
		return
	}
	for _, e := range entries {
		removeLeftSprite(ctx, env, c, e.Name())
	}
}

func removeLeftSprite(ctx context.Context, env *setup.Env, c *sprites.Client, sprite string) {
	name := filepath.Join(callsDir(env), sprite)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	// A file that was made and is not locked yet is empty.
	var where [1 << 10]byte
	n, _ := f.Read(where[:])
	if n == 0 || string(where[:n]) != env.SpritesURL+"\n" || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	if err := c.Delete(ctx, sprite); err == nil || errors.Is(err, sprites.ErrNotFound) {
		_ = os.Remove(name)
	}
}
