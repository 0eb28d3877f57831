package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fileSystems names the file systems that Linux identifies by numbers.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.XFS_SUPER_MAGIC: "xfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs",
	unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p", unix.AFS_SUPER_MAGIC: "afs", unix.CEPH_SUPER_MAGIC: "ceph",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs", unix.BCACHEFS_SUPER_MAGIC: "bcachefs", 0x2fc12fc1: "zfs",
}

func fileSystemKind(st unix.Statfs_t) string {
	if name, ok := fileSystems[int64(st.Type)&0xffffffff]; ok {
		return name
	}
	return fmt.Sprintf("file system 0x%x", st.Type)
}

// hasReflinks reports whether files in dir can share their bytes.
func hasReflinks(dir string) bool {
	from, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return false
	}
	defer os.Remove(from.Name())
	defer from.Close()
	to, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return false
	}
	defer os.Remove(to.Name())
	defer to.Close()
	if _, err := from.Write(make([]byte, 4096)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// findOverlay says whether the kernel has overlayfs.
func findOverlay() string {
	list, err := os.ReadFile("/proc/filesystems")
	switch {
	case err != nil:
		return "not known"
	case bytes.Contains(list, []byte("\toverlay\n")):
		return "there"
	}
	return "not loaded"
}

// controlGroups checks which control groups this process can give sprites; the check "limits" shows whether they work.
func controlGroups() Check {
	c := Check{Name: "cgroup", Status: OK}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		c.Detail = "none"
		return c
	}
	mount := "/sys/fs/cgroup"
	kind := "version 1"
	switch _, unified := os.Stat(mount + "/cgroup.controllers"); {
	case unified == nil:
		kind = "version 2"
	case pathExists(mount + "/unified/cgroup.procs"):
		kind, mount = "versions 1 and 2", mount+"/unified"
	}
	delegated := "not delegated to this user"
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && unix.Access(filepath.Join(mount, path), unix.W_OK) == nil {
			delegated = "writable"
		}
	}
	c.Detail = kind + ", " + delegated
	return c
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
