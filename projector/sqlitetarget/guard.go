package sqlitetarget

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
)

// prefix is that of this package's own tables.
const prefix = "ccc_"

// mode is whose statement a connection works on.
type mode int

const (
	ours     mode = iota
	handlers      // and schema scripts
	readers       // in Target.Read
)

// guard is a connection's authorizer: SQLite asks it about each thing that a
// statement would do, when the statement is prepared, also where that happens
// again because the schema has changed.
type guard struct {
	mode   mode
	denied string // why, of the last no
}

// harmless pragmas only tell something, whatever their argument is.
var harmless = []string{
	"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
	"foreign_key_check", "integrity_check", "quick_check", "collation_list", "function_list", "compile_options", "database_list",
}

// askable pragmas tell something if they have no argument. Full-text search
// asks for some of them itself.
var askable = []string{
	"data_version", "schema_version", "user_version", "application_id", "foreign_keys", "encoding", "page_size", "page_count", "freelist_count",
}

func (g *guard) Authorize(a sqlite.Action) sqlite.AuthResult {
	if g.mode == ours {
		return sqlite.AuthResultOK
	}
	if why := g.refuses(a); why != "" {
		g.denied = why
		return sqlite.AuthResultDeny
	}
	return sqlite.AuthResultOK
}

// refuses says why an action is not for a program's own SQL, or "".
func (g *guard) refuses(a sqlite.Action) string {
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive:
		return ""
	case sqlite.OpPragma:
		name := strings.ToLower(a.Pragma())
		if slices.Contains(harmless, name) || a.PragmaArg() == "" && slices.Contains(askable, name) {
			return ""
		}
		return "PRAGMA " + name + ": the connection has its settings already, and they hold beyond this transaction"
	case sqlite.OpTransaction, sqlite.OpSavepoint:
		return a.Operation() + ": the transaction begins and ends with the batch (or Read, or the scripts): return an error to roll it back"
	case sqlite.OpAttach, sqlite.OpDetach:
		return "ATTACH and DETACH reach beyond the file: what is in another one is not committed together with the checkpoint"
	}
	if g.mode == readers {
		return "Read is for queries: write in a projector's handler, where it is committed together with the checkpoint"
	}
	switch a.Type() {
	case sqlite.OpAnalyze:
		return ""
	case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete:
		if own(a.Table()) {
			return "table " + a.Table() + " is the projector's own: tables whose names begin with " + prefix + " can only be read"
		}
		return ""
	case sqlite.OpCreateTable, sqlite.OpDropTable, sqlite.OpAlterTable, sqlite.OpCreateVTable, sqlite.OpDropVTable,
		sqlite.OpCreateIndex, sqlite.OpDropIndex, sqlite.OpReindex, sqlite.OpCreateTrigger, sqlite.OpDropTrigger,
		sqlite.OpCreateView, sqlite.OpDropView:
		for _, name := range []string{a.Table(), a.Index(), a.Trigger(), a.View()} {
			if own(name) {
				return "names that begin with " + prefix + " are the projector's own: choose another one than " + name
			}
		}
		return ""
	case sqlite.OpCreateTempTable, sqlite.OpCreateTempIndex, sqlite.OpCreateTempTrigger, sqlite.OpCreateTempView:
		return "what is TEMP is not in the file, and would be seen by later batches until the program ends: use a plain table"
	}
	return a.String()
}

func own(name string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
