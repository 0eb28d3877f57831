package core

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
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

// superblockID names the mounted file system that dir is on, unlike any other for as long as the system runs; "" for file systems that
// are on no disk of their own. It is the number of the folder that the kernel makes for it below /sys/fs when it is mounted first, and
// numbers of such folders are not used again.
func superblockID(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return ""
	}
	found, err := filepath.Glob("/sys/fs/*/" + filepath.Base(device))
	if err != nil || len(found) != 1 || unix.Stat(found[0], &st) != nil {
		return ""
	}
	return fmt.Sprintf("sysfs-%d", st.Ino)
}

// Disk names the present run of the system and the mount of the disk that the sprites are on. When it is another one than
// before, files that were not synced may be torn. It is "" where that cannot be told. Before Linux 6.8 a disk without superblockID counts as
// the same until the system is started again.
func (c *Core) Disk() string {
	boot := strings.TrimSpace(BootID())
	if boot == "" {
		return ""
	}
	return strings.TrimSpace(boot + " " + cmp.Or(mountID(c.Config.Dir), superblockID(c.Config.Dir)))
}
