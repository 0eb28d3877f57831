package services

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Bounds of services; each may write a log of its own to the host's disk.
const (
	maxServices   = 32
	maxServiceEnv = 1 << 20 // bytes of command and environment
)

// serviceName matches the names of services, which name files and are part of URLs.
var serviceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

// checkSpec validates a definition, and fills in defaults.
func checkSpec(s *records.Service) error {
	switch {
	case !serviceName().MatchString(s.Name):
		return wire.BadRequest(fmt.Sprintf("%.80q is no service name: use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit", s.Name))
	case s.Cmd == "":
		return wire.BadRequest("cmd is missing: give the program, and its arguments in args")
	case s.HTTPPort < 0 || s.HTTPPort > 65535:
		return wire.BadRequest(fmt.Sprintf("http_port must be between 1 and 65535, not %d", s.HTTPPort))
	}
	size := 0
	for _, text := range slices.Concat([]string{s.Cmd, s.Dir}, s.Args) {
		if size += len(text); strings.ContainsRune(text, 0) {
			return wire.BadRequest("cmd, args and dir must not hold the byte 0")
		}
	}
	for name, value := range s.Env {
		if size += len(name) + len(value); name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return wire.BadRequest(fmt.Sprintf("env: %.80q cannot be given to a command", name+"="+value))
		}
	}
	if size > maxServiceEnv {
		return wire.BadRequest(fmt.Sprintf("cmd, args and env are %d bytes; at most %d are kept", size, maxServiceEnv))
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		s.Dir = path.Join(program.DefaultDir, s.Dir)
	}
	if s.Args == nil {
		s.Args = []string{}
	}
	s.Needs = slices.Compact(slices.Sorted(slices.Values(s.Needs)))
	if s.Needs == nil {
		s.Needs = []string{}
	}
	return nil
}

// admitService checks a new or changed service against the others of its sprite. It replaces the one of its name.
func admitService(all map[string]records.Service, s records.Service) error {
	if _, ok := all[s.Name]; !ok && len(all) >= maxServices {
		return wire.Refuse(http.StatusConflict, "too_many_services", fmt.Sprintf("a sprite has at most %d services; delete one", maxServices))
	}
	for _, need := range s.Needs {
		if _, ok := all[need]; !ok && need != s.Name {
			return wire.BadRequest(fmt.Sprintf("service %s needs %.80q, and there is no such service; define that one first", s.Name, need))
		}
	}
	for name, other := range all {
		if name != s.Name && s.HTTPPort != 0 && other.HTTPPort != 0 {
			return wire.Refuse(http.StatusConflict, "http_port_taken", "another service already has an HTTP port configured: "+name)
		}
	}
	with := maps.Clone(all)
	with[s.Name] = s
	for _, need := range s.Needs {
		if slices.Contains(needsOf(with, need), s.Name) {
			return wire.BadRequest(fmt.Sprintf("circular dependency: %s needs %s, which needs %s", s.Name, need, s.Name))
		}
	}
	return nil
}

// needsOf names a service and all that it needs, directly or not, sorted.
func needsOf(all map[string]records.Service, name string) []string {
	seen := map[string]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		if s, ok := all[queue[0]]; ok && !seen[s.Name] {
			seen[s.Name] = true
			queue = append(queue, s.Needs...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// findDependents names the services that need name directly.
func findDependents(all map[string]records.Service, name string) (found []string) {
	for _, s := range all {
		if s.Name != name && slices.Contains(s.Needs, name) {
			found = append(found, s.Name)
		}
	}
	slices.Sort(found)
	return found
}

var errNoService = errors.New("service not found")

// HTTPPort is the port that a sprite's URL leads to, and the service that serves it, "" when none is said to.
func HTTPPort(all map[string]records.Service) (port int, service string) {
	for _, s := range all {
		if s.HTTPPort != 0 {
			return s.HTTPPort, s.Name
		}
	}
	return defaultHTTPPort, ""
}

// defaultHTTPPort is the port of a sprite's URL unless a service has another one.
const defaultHTTPPort = 8080
