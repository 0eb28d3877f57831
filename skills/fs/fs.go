// Package fs holds the skills that read and change files of the workspace, fs.read, fs.write, fs.search and so on, one
// file each. All access goes through workspace.Root, so no path and no symlink leads out of the workspace; nothing but
// regular files is ever opened. The runtime's own folder .lattice and the insides of .git can be read but not changed.
// What is written is there whole or not at all, and every verb that changes a file takes expect_sha256, which refuses
// one that is not as its caller last saw it.
package fs

import (
	"encoding/base64"
	"fmt"
	"io/fs"

	"github.com/spritekit/lattice/spritekit/skill"
)

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{
		{Name: "fs.append", Run: Append},
		{Name: "fs.copy", Run: Copy},
		{Name: "fs.edit", Run: Edit},
		{Name: "fs.glob", Run: Glob},
		{Name: "fs.hash", Run: Hash},
		{Name: "fs.list", Run: List},
		{Name: "fs.mkdir", Run: Mkdir},
		{Name: "fs.move", Run: Move},
		{Name: "fs.patch", Run: Patch},
		{Name: "fs.read", Run: Read},
		{Name: "fs.remove", Run: Remove},
		{Name: "fs.search", Run: Search},
		{Name: "fs.stat", Run: Stat},
		{Name: "fs.write", Run: Write},
	}
}

// Encodings of file content in JSON.
const (
	encodingUTF8   = "utf8"
	encodingBase64 = "base64"
)

// decode turns the content of an input into bytes.
func decode(content, encoding string) ([]byte, error) {
	switch encoding {
	case encodingUTF8, "":
		return []byte(content), nil
	case encodingBase64:
		data, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return nil, skill.BadInput("/content", "is not base64: %v", err)
		}
		return data, nil
	}
	return nil, badEncoding(encoding)
}

func badEncoding(encoding string) error {
	return skill.BadInput("/encoding", "%q is none of utf8, base64", encoding)
}

// octal renders permission bits the way chmod takes them.
func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }
