package core

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// mountID names the mount that dir is on, unlike any other since the system was started; "" before Linux 6.8.
func mountID(dir string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID_UNIQUE, &st) != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return ""
	}
	return fmt.Sprint(st.Mnt_id)
}

// Disk names the present run of the system and the mount of the disk that the sprites are on. When it is another one than
// before, files that were not synced may be torn. It is "" where that cannot be told.
func (c *Core) Disk() string {
	boot := strings.TrimSpace(BootID())
	if boot == "" {
		return ""
	}
	return strings.TrimSpace(boot + " " + mountID(c.Config.Dir))
}
