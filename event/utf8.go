package event

import (
	"fmt"
	"reflect"
	"unicode/utf8"
)

// notUTF8 finds a string in v that is not valid UTF-8 and returns its path;
// empty where there is none. It is called for values that were encoded already,
// so they have no cycles.
func notUTF8(v reflect.Value, path string) string {
	if !v.IsValid() || implements(v.Type(), marshalerType) {
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return path
		}
	case reflect.Pointer, reflect.Interface:
		return notUTF8(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if at := notUTF8(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if at := notUTF8(key, path+" (a key)"); at != "" {
				return at
			}
			if at := notUTF8(value, fmt.Sprintf("%s[%v]", path, key)); at != "" {
				return at
			}
		}
	case reflect.Struct:
		for f, value := range v.Fields() {
			if _, _, skip := jsonTag(f); skip {
				continue
			}
			if at := notUTF8(value, path+"."+f.Name); at != "" {
				return at
			}
		}
	}
	return ""
}
