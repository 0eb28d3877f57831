// Package fs holds the skills that read and write files of the workspace: fs.read, fs.write and fs.list, one file each.
// All access goes through workspace.Root, so no path and no symlink leads out of the workspace; the runtime's own
// folder .lattice can be read but not written.
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
		{Name: "fs.list", Run: List},
		{Name: "fs.read", Run: Read},
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
