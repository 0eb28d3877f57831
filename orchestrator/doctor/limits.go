package doctor

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelLimits are limits of the kernel for one user that are too low for a few dozen sprites, with their least values.
var kernelLimits = []struct {
	name  string // of the file in /proc/sys; nofile is the limit of this process
	least uint64
}{
	{"fs/inotify/max_user_instances", 128}, {"fs/inotify/max_user_watches", 8192}, {"kernel/keys/maxkeys", 200}, {"kernel/pid_max", 32768}, {"nofile", 4096},
	{"user/max_cgroup_namespaces", 256}, {"user/max_ipc_namespaces", 256}, {"user/max_mnt_namespaces", 256}, {"user/max_net_namespaces", 256},
	{"user/max_pid_namespaces", 256}, {"user/max_user_namespaces", 256}, {"user/max_uts_namespaces", 256},
}

// KernelLimits judges limits by their names. It leaves out those that this kernel does not have.
func KernelLimits(found map[string]uint64) Check {
	var low, raise []string
	for _, l := range kernelLimits {
		value, ok := found[l.name]
		if !ok || value >= l.least {
			continue
		}
		low = append(low, fmt.Sprintf("%s is %d, less than %d", l.name, value, l.least))
		if l.name == "nofile" {
			raise = append(raise, fmt.Sprintf("ulimit -n %d", l.least))
		} else {
			raise = append(raise, fmt.Sprintf("sysctl -w %s=%d", strings.ReplaceAll(l.name, "/", "."), l.least))
		}
	}
	if len(low) == 0 {
		return Check{Name: "kernel limits", Status: OK, Detail: fmt.Sprintf("%d limits suffice for many sprites", len(found))}
	}
	return Check{Name: "kernel limits", Status: Warn, Detail: strings.Join(low, "; "), Remedy: strings.Join(raise, "; ")}
}

// lookAtKernelLimits reads the limits of the kernel.
func lookAtKernelLimits(context.Context) []Check {
	found := map[string]uint64{}
	for _, l := range kernelLimits {
		text, err := os.ReadFile("/proc/sys/" + l.name)
		if err != nil {
			continue // not of this kernel, or the limit of the process
		}
		if value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			found[l.name] = value
		}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		found["nofile"] = uint64(files.Max)
	}
	return []Check{KernelLimits(found)}
}
