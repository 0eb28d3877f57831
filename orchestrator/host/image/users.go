package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// maxUsers bounds an image's list of users, and that of its groups, in bytes.
const maxUsers = 64 << 10

// Users returns /etc/passwd and /etc/group for sprites of an image: the image's own lists, with the user sprite, number
// 1000, before others of that number. An image without usable lists gets minimal ones.
func (s *Store) Users(digest string) (passwd, group string, err error) {
	root, err := os.OpenRoot(s.Dir(digest))
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	own, err := readUsers(root, "etc/passwd")
	if err != nil {
		return "", "", err
	}
	groups, err := readUsers(root, "etc/group")
	if err != nil {
		return "", "", err
	}
	return withUsers(own, 7, "root:x:0:0:root:/root:/bin/sh", "sprite:x:1000:1000:sprite:/home/sprite:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"),
		withUsers(groups, 4, "root:x:0:", "sprite:x:1000:", "nogroup:x:65534:"), nil
}

// readUsers reads a list of users. Links are followed inside the image. A list that is not a file, or is too large,
// counts as empty.
func readUsers(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil // missing, or a link that leads out
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxUsers {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxUsers))
	if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return string(data), err
}

// withUsers adds the needed lines to a list whose lines have the given number of fields. A needed line replaces lines of the
// same name, and precedes lines of the same number. Malformed lines are left out.
func withUsers(list string, fields int, needed ...string) string {
	var out []string
	for line := range strings.Lines(list) {
		line = strings.TrimRight(line, "\n")
		if strings.Count(line, ":") == fields-1 && !strings.HasPrefix(line, ":") && !strings.ContainsAny(line, "\x00\r") {
			out = append(out, line)
		}
	}
	for _, add := range needed {
		name, number := userOf(add)
		sprite := name == "sprite"
		out = slices.DeleteFunc(out, func(line string) bool { n, _ := userOf(line); return sprite && n == name })
		at := slices.IndexFunc(out, func(line string) bool { _, n := userOf(line); return n == number })
		switch {
		case at < 0:
			out = append(out, add)
		case sprite:
			out = slices.Insert(out, at, add)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// userOf takes the name and the number from a line of either list.
func userOf(line string) (name, number string) {
	parts := strings.SplitN(line, ":", 4)
	return parts[0], parts[2]
}
