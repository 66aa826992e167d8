package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type (
	textInt   int
	jsonInt   int
	ptrText   int
	namedText string
	byteLike  byte
	embA      struct {
		A string
		B int
	}
	EmbB struct {
		B string `json:"b"`
		X string `json:"A"`
	}
	EmbC struct {
		embA
		*EmbB
		C bool `json:",string"`
	}
	EmbD struct{ embA }
	EmbE struct {
		embA
		E string
	}
	EmbLoop struct {
		*EmbLoop
		P string
	}
	embText string
	EmbText string
	pp      *string
)

func (textInt) MarshalText() ([]byte, error)    { return []byte("text"), nil }
func (*textInt) UnmarshalText([]byte) error     { return nil }
func (jsonInt) MarshalJSON() ([]byte, error)    { return []byte(`"json"`), nil }
func (*jsonInt) UnmarshalJSON([]byte) error     { return nil }
func (p *ptrText) MarshalText() ([]byte, error) { return []byte("text"), nil }
func (byteLike) MarshalText() ([]byte, error)   { return []byte("text"), nil }

var fieldTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[namedText](), reflect.TypeFor[int](), reflect.TypeFor[uint8](), reflect.TypeFor[float64](),
	reflect.TypeFor[bool](), reflect.TypeFor[*string](), reflect.TypeFor[**string](), reflect.TypeFor[*int](), reflect.TypeFor[**int](), reflect.TypeFor[any](),
	reflect.TypeFor[[]byte](), reflect.TypeFor[[3]byte](), reflect.TypeFor[[]byteLike](), reflect.TypeFor[[]string](), reflect.TypeFor[map[string]string](),
	reflect.TypeFor[textInt](), reflect.TypeFor[*textInt](), reflect.TypeFor[jsonInt](), reflect.TypeFor[ptrText](), reflect.TypeFor[*ptrText](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[uuid.UUID](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](),
	reflect.TypeFor[struct{ A string }](), reflect.TypeFor[pp](), reflect.TypeFor[embA](), reflect.TypeFor[*EmbB](),
}

var embedded = []reflect.Type{reflect.TypeFor[EmbB](), reflect.TypeFor[*EmbB](), reflect.TypeFor[EmbC](), reflect.TypeFor[EmbText](), reflect.TypeFor[fmt.Stringer]()}

// What reflection cannot make up: embedded types that are not exported.
var fixedStructs = []reflect.Type{
	reflect.TypeFor[EmbC](), reflect.TypeFor[struct{ embText }](),
	reflect.TypeFor[struct {
		embA
		B string
	}](),
	reflect.TypeFor[struct {
		embA
		EmbB
	}](),
	reflect.TypeFor[struct {
		embA
		In struct{ embA }
		EmbC
	}](),
	reflect.TypeFor[struct { // embA comes by two ways
		EmbD
		EmbE
	}](), reflect.TypeFor[EmbLoop](), reflect.TypeFor[struct{ *EmbLoop }](),
	reflect.TypeFor[struct {
		embA `json:"b"`
		x    string
	}](),
}

// anyStruct makes up a struct type.
func anyStruct(t *rapid.T) reflect.Type {
	var fields []reflect.StructField
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C", "D", "E", "F"}), 0, 5, rapid.ID[string]).Draw(t, "names")
	for _, name := range names {
		tag := rapid.SampledFrom([]string{"", "", `json:"a"`, `json:"b"`, `json:"A"`, `json:",string"`, `json:"a,string"`, `json:"-"`, `json:"-,"`, `json:"a b"`, `json:"\\"`, `json:"é.x-1"`, `json:",inline"`}).Draw(t, "tag")
		fields = append(fields, reflect.StructField{Name: name, Type: rapid.SampledFrom(fieldTypes).Draw(t, "type"), Tag: reflect.StructTag(tag)})
	}
	for _, e := range rapid.SliceOfNDistinct(rapid.SampledFrom(embedded), 0, 2, func(t reflect.Type) string { return strings.TrimPrefix(t.String(), "*") }).Draw(t, "embedded") {
		name := e.Name()
		if e.Kind() == reflect.Pointer {
			name = e.Elem().Name()
		}
		f := reflect.StructField{Name: name, Type: e, Anonymous: true}
		if rapid.IntRange(0, 4).Draw(t, "tagged") == 0 {
			f.Tag = `json:"b"`
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

// fill sets v to something that JSON writes, strings wherever it can.
func fill(v reflect.Value) { fillTo(v, 8) }

func fillTo(v reflect.Value, depth int) {
	if depth == 0 { // a type that embeds itself
		return
	}
	if !v.CanSet() {
		if v.Kind() == reflect.Struct { // an embedded one that is not exported
			for i := range v.NumField() {
				fillTo(v.Field(i), depth-1)
			}
		}
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = someDay
		return
	case *uuid.UUID:
		*x = command
		return
	case *json.RawMessage:
		*x = json.RawMessage(`"raw"`)
		return
	case *json.Number:
		*x = "1"
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTo(v.Elem(), depth-1)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("any"))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTo(v.Index(0), depth-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Struct:
		for i := range v.NumField() {
			fillTo(v.Field(i), depth-1)
		}
	}
}

func TestKeysAreThoseOfEncodingJSON(t *testing.T) {
	strings, others := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.OneOf(rapid.Custom(anyStruct), rapid.SampledFrom(fixedStructs)).Draw(t, "struct")
		v := reflect.New(typ)
		fill(v.Elem())
		data, err := json.Marshal(v.Interface())
		require.NoError(t, err)
		var top map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &top))

		for _, form := range []reflect.Type{typ, reflect.PointerTo(typ)} {
			keys := keysOf(form)
			require.False(t, keys.open, "%s", typ)
			require.Len(t, keys.fields, len(top), "%s: %s, but %v", typ, data, keys.fields)
			for key, raw := range top {
				f, ok := keys.fields[key]
				require.True(t, ok, "%s: %s lacks %q", typ, data, key)
				doubly := raw[0] == '"' && len(raw) > 2 && raw[1] == '\\' // a string as a string: of no use to a query
				switch {
				case raw[0] == '"' && !doubly:
					strings++
					require.Empty(t, f.never, "%s: %s: %q is a string", typ, data, key)
				case doubly:
					require.Contains(t, f.never, "drop the option", "%s: %s", typ, data)
				case string(raw) != "null" && !mayBeString(f.path, typ):
					others++
					require.NotEmpty(t, f.never, "%s: %s: %q is never a string", typ, data, key)
				}
			}
		}
	})
	require.Positive(t, strings)
	require.Positive(t, others)
}

// mayBeString: a value that is marshaled from where it cannot be addressed may
// differ from one that can.
func mayBeString(path string, t reflect.Type) bool {
	f, ok := t.FieldByName(path[strings.LastIndexByte(path, '.')+1:])
	return ok && strings.Contains(f.Type.String(), "ptrText")
}

func TestOpenTypes(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Free](), reflect.TypeFor[Custom](), reflect.TypeFor[*Custom](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]any](),
		reflect.TypeFor[struct{ Custom }](), // takes over its methods
	} {
		require.True(t, keysOf(typ).open, "%s", typ)
		require.True(t, keysOf(typ).has("anything"))
	}
	require.False(t, keysOf(reflect.TypeFor[struct{ C Custom }]()).open)
	require.False(t, keysOf(reflect.TypeFor[struct{ Event }]()).open, "an embedded interface is a field with its name")
}

func TestWhatHoldsAnInterface(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[any](), reflect.TypeFor[*Posted](), reflect.TypeFor[Free](), reflect.TypeFor[[]map[string]*[2]any](), reflect.TypeFor[struct{ embAny }](),
	} {
		require.True(t, holdsInterface(typ), "%s", typ)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Opened](), reflect.TypeFor[recursive](), reflect.TypeFor[Custom](), reflect.TypeFor[struct{ T time.Time }](),
	} {
		require.False(t, holdsInterface(typ), "%s", typ)
	}
}

type embAny struct{ X any }
