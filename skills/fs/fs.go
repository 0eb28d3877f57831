// Package fs holds the skills that read and change files of the workspace, fs.read, fs.write, fs.search and so on, one
// file each. All access goes through workspace.Root, so no path and no symlink leads out of the workspace; nothing but
// regular files is ever opened. The runtime's own folder .lattice and the insides of .git can be read but not changed.
// A write is complete or not done at all, and every verb that changes a file takes expect_sha256, which refuses
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
		{Name: "fs.append", Run: skill.Typed(appendFile)},
		{Name: "fs.copy", Run: skill.Typed(copyPath)},
		{Name: "fs.edit", Run: skill.Typed(editFile)},
		{Name: "fs.glob", Run: skill.Typed(globPaths)},
		{Name: "fs.hash", Run: skill.Typed(hashFiles)},
		{Name: "fs.list", Run: skill.Typed(listFolder)},
		{Name: "fs.mkdir", Run: skill.Typed(makeFolder)},
		{Name: "fs.move", Run: skill.Typed(movePath)},
		{Name: "fs.patch", Run: skill.Typed(patchFiles)},
		{Name: "fs.read", Run: skill.Typed(readFile)},
		{Name: "fs.remove", Run: skill.Typed(removePath)},
		{Name: "fs.search", Run: skill.Typed(searchFiles)},
		{Name: "fs.stat", Run: skill.Typed(statPath)},
		{Name: "fs.write", Run: skill.Typed(writeFile)},
	}
}

// Encodings of file content in JSON.
const (
	encodingUTF8   = "utf8"
	encodingBase64 = "base64"
)

// decodeContent turns the content of an input into bytes.
func decodeContent(content, encoding string) ([]byte, error) {
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

// formatMode renders permission bits the way chmod takes them.
func formatMode(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }
