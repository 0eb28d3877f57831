package mcp

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxImage is the largest image that a client is shown, in bytes.
const maxImage = 5 << 20

// imageInput makes of an fs.read of a whole image the call that returns its bytes; any other call stays as it is.
func imageInput(name string, input json.RawMessage) (wanted json.RawMessage, is bool) {
	var in map[string]json.RawMessage
	var file string
	if name != "fs.read" || json.Unmarshal(input, &in) != nil || json.Unmarshal(in["path"], &file) != nil {
		return input, false
	}
	switch strings.ToLower(path.Ext(file)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp":
	default:
		return input, false
	}
	for _, part := range []string{"offset", "length", "start_line", "end_line", "truncate"} {
		if in[part] != nil {
			return input, false
		}
	}
	in["encoding"] = json.RawMessage(`"base64"`)
	if in["max_bytes"] == nil {
		in["max_bytes"], _ = json.Marshal(maxImage) // a number always marshals
	}
	wanted, err := json.Marshal(in)
	return wanted, err == nil
}

// addImage returns the result of fs.read as an image, nil if it is not one. It adds no structured content, because clients that
// get both drop the image.
func (s *Server) addImage(said protocol.Result) *sdk.CallToolResult {
	data := said.Data
	if skill.Spilled(said) {
		var err error
		if data, err = skill.ReadSpilled(s.options.Env, said, 2*maxImage); err != nil {
			return nil
		}
	}
	var members map[string]json.RawMessage
	var content []byte // encoding/json reads base64 into it
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["content"], &content) != nil {
		return nil
	}
	kind := http.DetectContentType(content)
	if !strings.HasPrefix(kind, "image/") {
		return nil
	}
	delete(members, "content")
	text, err := json.Marshal(map[string]any{"ok": true, "skill": said.Skill, "data": members})
	if err != nil {
		return nil
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}, &sdk.ImageContent{Data: content, MIMEType: kind}}}
}
