package cgroup

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// hierarchy is one tree of control groups as this process sees it. A system has one for all controllers (unified, version 2),
// one for each of them (version 1), or some of both kinds.
type hierarchy struct {
	unified     bool
	top         string   // where it is mounted
	own         string   // folder below which this process makes groups: its own group, or of a unified one an ancestor
	controllers []string // that groups made there have
}

// useful are the controllers that boxes are given to.
var useful = []string{string(spec.DefencePids), string(spec.DefenceMemory), string(spec.DefenceCPU), "freezer"}

// findHierarchies lists those in which this process could make groups of use; whether it may is found out by trying.
func findHierarchies() []hierarchy {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	all := parseHierarchies(string(mounts), string(membership))
	for i, h := range all {
		if h.unified {
			all[i] = h.findDelegated()
		}
	}
	return all
}

// parseHierarchies reads the kernel's lists of a process's mounts and control groups.
func parseHierarchies(mountinfo, membership string) (all []hierarchy) {
	groups := map[string]string{} // path of the process's group by controllers, "" for the unified one
	for line := range strings.Lines(membership) {
		if parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(parts) == 3 {
			for c := range strings.SplitSeq(parts[1], ",") {
				groups[c] = parts[2]
			}
		}
	}
	for sc := bufio.NewScanner(strings.NewReader(mountinfo)); sc.Scan(); {
		mount, kind, ok := strings.Cut(sc.Text(), " - ")
		where, what := strings.Fields(mount), strings.Fields(kind)
		if !ok || len(where) < 5 || len(what) < 3 {
			continue
		}
		h := hierarchy{unified: what[0] == "cgroup2", top: where[4]}
		key := ""
		switch {
		case h.unified:
		case what[0] == "cgroup":
			h.controllers = slices.DeleteFunc(strings.Split(what[2], ","), func(c string) bool { return !slices.Contains(useful, c) })
			if len(h.controllers) == 0 {
				continue
			}
			key = h.controllers[0]
		default:
			continue
		}
		group, ok := groups[key]
		if !ok || !spec.Within(group, where[3]) || strings.HasPrefix(where[3], "/..") {
			continue // the mount does not show where the process is
		}
		h.own = filepath.Join(h.top, strings.TrimPrefix(group, where[3]))
		if !slices.ContainsFunc(all, func(other hierarchy) bool {
			return other.unified == h.unified && slices.Equal(other.controllers, h.controllers)
		}) {
			all = append(all, h)
		}
	}
	return all
}

// findDelegated finds where in a unified hierarchy groups get the most controllers: a group with processes can hand none on to
// groups below it, so that is often an ancestor of this process's own.
func (h hierarchy) findDelegated() hierarchy {
	best := h
	for dir := h.own; spec.Within(dir, h.top); dir = filepath.Dir(dir) {
		if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
			break // processes move only between groups whose common ancestor is ours
		}
		offered := readWords(filepath.Join(dir, "cgroup.controllers"))
		handed := filepath.Join(dir, "cgroup.subtree_control")
		for _, c := range useful {
			if slices.Contains(offered, c) && !slices.Contains(readWords(handed), c) {
				_ = os.WriteFile(handed, []byte("+"+c), 0) // refused where processes are
			}
		}
		has := slices.DeleteFunc(readWords(handed), func(c string) bool { return !slices.Contains(useful, c) })
		if len(has) > len(best.controllers) {
			best.own, best.controllers = dir, has
		}
	}
	return best
}

func readWords(path string) []string {
	b, _ := os.ReadFile(path) // an unreadable file offers nothing
	return strings.Fields(string(b))
}
