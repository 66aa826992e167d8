package ccc_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func files(t *testing.T, ext string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return cmpErr(err, filepath.SkipDir)
		}
		if !d.IsDir() && filepath.Ext(path) == ext {
			data, err := os.ReadFile(path)
			out[filepath.ToSlash(path)] = string(data)
			return err
		}
		return nil
	}))
	return out
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

var (
	link  = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	proof = regexp.MustCompile(`\[((?:Test|Benchmark|Example)\w*)(?:/[^\]]*)?\]\(([^)]+)\)`)
	code  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
)

// Links lead somewhere, and a link that names a test leads to the file that
// has it.
func TestDocsLinks(t *testing.T) {
	for path, text := range files(t, ".md") {
		text = code.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		for _, m := range proof.FindAllStringSubmatch(text, -1) {
			data, _ := os.ReadFile(filepath.Join(filepath.Dir(path), m[2]))
			if !strings.Contains(string(data), "func "+m[1]+"(") {
				t.Errorf("%s says that %s has %s, which it has not", path, m[2], m[1])
			}
		}
	}
}

// Every Go snippet of the docs is code that is compiled and tested: its lines
// stand together in a Go file.
func TestDocsSnippets(t *testing.T) {
	var have []string
	for _, text := range files(t, ".go") {
		have = append(have, squeeze(text))
	}
	for path, text := range files(t, ".md") {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			snippet, found := squeeze(m[1]), false
			for _, c := range have {
				found = found || strings.Contains(c, snippet)
			}
			if !found {
				t.Errorf("%s shows code that no Go file has:\n%s", path, m[1])
			}
		}
	}
}

// squeeze drops indentation, blank lines and the end of the last line.
func squeeze(code string) string {
	var lines []string
	for l := range strings.Lines(code) {
		if l = strings.Join(strings.Fields(l), " "); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// The README shows the whole of the quickstart.
func TestReadmeShowsTheQuickstart(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("examples/quickstart/main.go")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(program)+"```")
	require.LessOrEqual(t, strings.Count(string(program), "\n"), 120)
}
