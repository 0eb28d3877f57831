package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParseCond reads the text form of a condition, sugar for the AST:
//
//	$out.id in $in.candidates[*].id
//	len($out.body) >= 20 && !($out.tone == "rude") || matches($out.id, "^C[0-9]+$")
//
// From weakest: ||, &&, ! and comparisons (== != < <= > >= in), which do not chain. Operands are references, numbers,
// texts in "double" or 'single' quotes, true, false, null, lists of operands, and len(x). These stand alone: exists(ref),
// is_null(ref), has_key(ref, "k"), type_is(ref, "string"), matches(x, "re"), contains(x, y), starts_with(x, y),
// ends_with(x, y), and parentheses. A text is at most MaxCondText long. The error says at which character it stumbled.
func ParseCond(text string) (*Cond, error) {
	if len(text) > MaxCondText {
		return nil, fmt.Errorf("the condition has %d bytes; at most %d are allowed", len(text), MaxCondText)
	}
	p := condText{text: text}
	p.nextToken()
	tree, err := p.parseOr(0)
	if err == nil && p.token != "" {
		err = p.unexpectedToken("the end")
	}
	if err != nil {
		return nil, err
	}
	data, err := Marshal(tree)
	if err != nil {
		return nil, err
	}
	c := new(Cond)
	return c, c.UnmarshalJSON(data)
}

// MaxCondText bounds the text form of a condition, in bytes.
const MaxCondText = 2000

// condText reads tokens and makes the JSON of the AST, which has a reader of its own.
type condText struct {
	text  string
	at    int    // behind the current token
	start int    // of the current token
	token string // "" at the end; texts keep their quote as the first character, and are unquoted behind it
	bad   error  // why the current token is invalid
}

type tree = map[string]any

var errDeep = fmt.Errorf("the condition nests deeper than %d", maxCondDepth)

func (p *condText) parseOr(depth int) (any, error) {
	return p.parseChain(depth, "||", "or", p.parseAnd)
}

func (p *condText) parseAnd(depth int) (any, error) {
	return p.parseChain(depth, "&&", "and", p.parseNot)
}

// parseChain parses operands joined by the same operator as one node with all of them as arguments.
func (p *condText) parseChain(depth int, token, op string, part func(int) (any, error)) (any, error) {
	first, err := part(depth)
	if err != nil || p.token != token {
		return first, err
	}
	args := []any{first}
	for p.token == token {
		p.nextToken()
		arg, err := part(depth)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return tree{"op": op, "args": args}, nil
}

func (p *condText) parseNot(depth int) (any, error) {
	switch {
	case depth > maxCondDepth:
		return nil, errDeep
	case p.token == "!":
		p.nextToken()
		arg, err := p.parseNot(depth + 1)
		return tree{"op": "not", "args": []any{arg}}, err
	case p.token == "(":
		p.nextToken()
		inner, err := p.parseOr(depth + 1)
		if err != nil {
			return nil, err
		}
		return inner, p.expectToken(")")
	}
	if call, ok := condCalls[p.token]; ok {
		return p.parseCall(p.token, call, depth)
	}
	return p.parseComparison(depth)
}

var comparisons = map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "in": "in"}

func (p *condText) parseComparison(depth int) (any, error) {
	left, err := p.parseOperand(depth)
	if err != nil {
		return nil, err
	}
	op, ok := comparisons[p.token]
	if !ok {
		return nil, p.unexpectedToken("a comparison: == != < <= > >= in")
	}
	p.nextToken()
	right, err := p.parseOperand(depth)
	return tree{"op": op, "left": left, "right": right}, err
}

// condCalls are the conditions that are written as calls: the members of their AST, in the order of the arguments.
var condCalls = map[string][]string{
	"exists": {"ref"}, "is_null": {"ref"}, "has_key": {"ref", "key"}, "type_is": {"ref", "type"}, "matches": {"left", "pattern"},
	"contains": {"left", "right"}, "starts_with": {"left", "right"}, "ends_with": {"left", "right"},
}

func (p *condText) parseCall(op string, members []string, depth int) (any, error) {
	p.nextToken()
	node := tree{"op": op}
	for i, member := range members {
		open := ","
		if i == 0 {
			open = "("
		}
		if err := p.expectToken(open); err != nil {
			return nil, err
		}
		if member == "left" || member == "right" {
			v, err := p.parseOperand(depth)
			if err != nil {
				return nil, err
			}
			node[member] = v
			continue
		}
		switch quoted := strings.HasPrefix(p.token, `"`); {
		case member == "ref" && !strings.HasPrefix(p.token, "$"):
			return nil, p.unexpectedToken("a reference")
		case member != "ref" && !quoted:
			return nil, p.unexpectedToken("a text in quotes")
		}
		node[member] = strings.TrimPrefix(p.token, `"`)
		p.nextToken()
	}
	return node, p.expectToken(")")
}

func (p *condText) parseOperand(depth int) (any, error) {
	token := p.token
	switch {
	case depth > maxCondDepth:
		return nil, errDeep
	case token == "":
		return nil, p.unexpectedToken("a value")
	case token == "true", token == "false":
		p.nextToken()
		return token == "true", nil
	case token == "null":
		p.nextToken()
		return nil, nil
	case token[0] == '$':
		p.nextToken()
		return token, nil
	case token[0] == '"':
		p.nextToken()
		if text := token[1:]; strings.HasPrefix(text, "$") {
			return tree{"lit": text}, nil
		}
		return token[1:], nil
	case token[0] == '-' || token[0] >= '0' && token[0] <= '9':
		if !json.Valid([]byte(token)) {
			return nil, p.unexpectedToken("a number")
		}
		p.nextToken()
		return json.Number(token), nil
	case token == "len":
		p.nextToken()
		if err := p.expectToken("("); err != nil {
			return nil, err
		}
		of, err := p.parseOperand(depth + 1)
		if err != nil {
			return nil, err
		}
		return tree{"len": of}, p.expectToken(")")
	case token == "[":
		return p.parseList(depth)
	}
	return nil, p.unexpectedToken("a value")
}

func (p *condText) parseList(depth int) (any, error) {
	list := []any{}
	for p.nextToken(); p.token != "]"; {
		if len(list) > 0 {
			if err := p.expectToken(","); err != nil {
				return nil, err
			}
		}
		v, err := p.parseOperand(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	p.nextToken()
	return list, nil
}

func (p *condText) expectToken(token string) error {
	if p.token != token || p.bad != nil {
		return p.unexpectedToken(fmt.Sprintf("%q", token))
	}
	p.nextToken()
	return nil
}

func (p *condText) unexpectedToken(want string) error {
	at := utf8.RuneCountInString(p.text[:p.start]) + 1
	switch {
	case p.bad != nil:
		return fmt.Errorf("character %d: %w", at, p.bad)
	case p.token == "":
		return fmt.Errorf("the condition ends where %s is wanted", want)
	}
	return fmt.Errorf("character %d: %s is wanted, not %q", at, want, p.text[p.start:p.at])
}

// nextToken reads a token.
func (p *condText) nextToken() {
	rest := p.text[p.at:]
	trimmed := strings.TrimLeft(rest, " \t\r\n")
	p.start = p.at + len(rest) - len(trimmed)
	p.token, p.bad = "", nil
	n := 0
	switch {
	case trimmed == "":
	case trimmed[0] == '"' || trimmed[0] == '\'':
		n = p.scanQuoted(trimmed)
	case trimmed[0] == '$':
		n = refEnd(trimmed)
		p.token = trimmed[:n]
	case len(trimmed) > 1 && strings.Contains(" == != <= >= && || ", " "+trimmed[:2]+" "):
		n = 2
		p.token = trimmed[:n]
	case strings.ContainsRune("<>!()[],", rune(trimmed[0])):
		n = 1
		p.token = trimmed[:n]
	default:
		n = len(trimmed)
		if end := strings.IndexFunc(trimmed, func(r rune) bool {
			return r != '_' && r != '.' && r != '-' && r != '+' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}); end >= 0 {
			n = end
		}
		if n == 0 {
			_, n = utf8.DecodeRuneInString(trimmed)
		}
		p.token = trimmed[:n]
	}
	p.at = p.start + n
}

// scanQuoted reads a text with the escapes of JSON; in single quotes, double ones stand for themselves.
func (p *condText) scanQuoted(from string) int {
	quote := from[0]
	end := 1
	for end < len(from) && from[end] != quote {
		if from[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(from) {
		p.token, p.bad = "?", errors.New("the quote is not closed")
		return len(from)
	}
	inner := from[1:end]
	if quote == '\'' {
		inner = strings.ReplaceAll(strings.ReplaceAll(inner, `\'`, `'`), `"`, `\"`)
	}
	var text string
	if err := json.Unmarshal([]byte(`"`+inner+`"`), &text); err != nil {
		p.token, p.bad = "?", errors.New("the quoted text is not a valid JSON string")
		return end + 1
	}
	p.token = `"` + text
	return end + 1
}

// refEnd returns the length of the reference at the start of text, brackets included.
func refEnd(text string) int {
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '[':
			close := strings.IndexByte(text[i:], ']')
			if strings.HasPrefix(text[i:], "['") {
				if close = strings.Index(text[i:], "']"); close >= 0 {
					close++
				}
			}
			if close < 0 {
				return len(text)
			}
			i += close
		case c != '_' && c != '.' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'):
			return i
		}
	}
	return len(text)
}
