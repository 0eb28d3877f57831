package subids

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// timeout bounds a map: newuidmap may ask a directory service for the user.
const timeout = 10 * time.Second

// findHelper finds newuidmap or newgidmap, also for a user whose PATH is unusual.
func findHelper(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return exec.LookPath("/usr/bin/" + name)
	}
	return path, nil
}

// MapBox maps the range into the user namespace of process pid, a child of this process, where the user of this process gets the
// id me.
func (r Range) MapBox(pid, me int) error {
	return writeMaps(pid, sandboxMap(r.UID, os.Getuid(), me), sandboxMap(r.GID, os.Getgid(), me))
}

// writeMaps has newuidmap and newgidmap write the maps of a process.
func writeMaps(pid int, uids, gids []extent) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var both errgroup.Group
	for name, extents := range map[string][]extent{"newuidmap": uids, "newgidmap": gids} {
		both.Go(func() error {
			path, err := findHelper(name)
			if err != nil {
				return err
			}
			out, err := exec.CommandContext(ctx, path, commandLine(pid, extents)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
			}
			return nil
		})
	}
	return both.Wait()
}

// capabilities are those that Start gives, over the files of the range and the user's own.
var capabilities = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// Start starts cmd in a user namespace in which the range and the user's own id keep their numbers, and in which it may do to their
// files as root does. The program must not end, nor rely on the map, before it has read something that the caller sends after Start.
func (r Range) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, AmbientCaps: capabilities}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := writeMaps(cmd.Process.Pid, identityMap(r.UID, os.Getuid()), identityMap(r.GID, os.Getgid())); err != nil {
		return errors.Join(fmt.Errorf("map sub-ids: %w", err), cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	return nil
}

// Try maps the range for a program that does nothing.
func (r Range) Try() error {
	cmd := exec.Command("cat") // which is there until it has read all
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := r.Start(cmd); err != nil {
		return errors.Join(err, in.Close())
	}
	return errors.Join(in.Close(), cmd.Wait())
}

// ignoreExit drops the error that says how a process ended.
func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}
