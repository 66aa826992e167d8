package ccc_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/cccgo/ccc/"

// allowed is the direction of dependencies: what each package may import of
// this module, in its own code. Tests may import more.
var allowed = map[string]string{
	"consistency":                  "",
	"event":                        "consistency",
	"eventstore":                   "consistency event",
	"eventstore/memstore":          "consistency event eventstore",
	"eventstore/orisun":            "consistency event eventstore eventstore/orisun/wire",
	"eventstore/orisun/orisuntest": "consistency event eventstore eventstore/memstore eventstore/orisun/wire eventstore/storefault",
	"eventstore/orisun/wire":       "",
	"eventstore/sqlitestore":       "consistency event eventstore internal/sqlitedb",
	"eventstore/storefault":        "consistency event eventstore",
	"eventstore/storetest":         "consistency event eventstore",
	"internal/fleettest":           "",
	"internal/sqlitedb":            "",
	"command":                      "consistency event eventstore",
	"command/commandtest":          "command consistency event eventstore/memstore",
	"projector":                    "consistency event eventstore",
	"projector/effecttarget":       "consistency event projector",
	"projector/memtarget":          "consistency projector",
	"projector/progress":           "projector",
	"projector/reaction":           "command consistency projector",
	"projector/sqlitetarget":       "consistency event internal/sqlitedb projector",
	"projector/targettest":         "consistency event projector",
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestImportsPointOneWay(t *testing.T) {
	for _, line := range goList(t, "-f", `{{.ImportPath}}: {{join .Imports " "}}`, "./...") {
		name, imports, _ := strings.Cut(line, ": ")
		name, ok := strings.CutPrefix(name, module)
		if !ok || strings.HasPrefix(name, "examples/") {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s is new: say in this test what it may import", name)
		}
		for _, i := range strings.Fields(imports) {
			if own, ok := strings.CutPrefix(i, module); ok && !slices.Contains(strings.Fields(may), own) {
				t.Errorf("%s imports %s: dependencies point from examples to command and projector, eventstore, event, consistency", name, own)
			}
		}
	}
}

// Who imports command or projector compiles no store, driver, wire or test
// library.
func TestCoreIsLight(t *testing.T) {
	for _, core := range []string{"command", "projector", "projector/reaction"} {
		for _, dep := range goList(t, "-deps", "./"+core) {
			for _, heavy := range []string{module + "eventstore/", module + "internal", "sqlite", "pgx", "grpc", "opentelemetry", "testify", "net/http"} {
				if strings.Contains(dep, heavy) && dep != module+"eventstore" {
					t.Errorf("%s depends on %s", core, dep)
				}
			}
		}
	}
}
