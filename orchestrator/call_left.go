package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A sprite that was made for one call is removed by the process that made it. While that lives it holds a lock on a file
// of the sprite's name; a file that can be locked is that of a process which was killed, and its sprite is removed by the
// next call.

func (d *deps) callsDir() string { return filepath.Join(d.home, "calls") }

// claim takes the lock of a sprite that is about to be made. release gives it back once the sprite is gone.
func (d *deps) claim(sprite string) (release func(), err error) {
	if d.home == "" {
		return func() {}, nil // there is no place to remember it
	}
	if err := os.MkdirAll(d.callsDir(), 0o700); err != nil {
		return nil, fmt.Errorf("remember the sprite of a call: %w", err)
	}
	name := filepath.Join(d.callsDir(), sprite)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, d.spritesURL)
	}
	if err != nil {
		return nil, fmt.Errorf("remember the sprite of a call: %w", err)
	}
	return func() {
		_ = os.Remove(name) // the next call removes what is left
		f.Close()
	}, nil
}

// removeLeft removes the sprites of calls whose process was killed. What it cannot remove now stays for the next call.
func (d *deps) removeLeft(ctx context.Context, c *sprites.Client) {
	entries, err := os.ReadDir(d.callsDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		d.removeOne(ctx, c, e.Name())
	}
}

func (d *deps) removeOne(ctx context.Context, c *sprites.Client, sprite string) {
	name := filepath.Join(d.callsDir(), sprite)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	// A file that was made and is not locked yet is empty.
	var where [1 << 10]byte
	n, _ := f.Read(where[:])
	if n == 0 || string(where[:n]) != d.spritesURL+"\n" || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	if err := c.Delete(ctx, sprite); err == nil || errors.Is(err, sprites.ErrNotFound) {
		_ = os.Remove(name)
	}
}
