package autograd

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/cistern-ml/cistern/internal/region"
	"github.com/cistern-ml/cistern/tensor"
)

// scope lists the variables that were made while it was the innermost one, and returned by scopes inside it. Variables
// made outside of all scopes are on no list: the ledger has them.
type scope struct {
	outer  *scope
	made   []*Variable
	module Located // whose forward pass the scope is, nil for none
	host   *scope  // the innermost scope of a module around this one, or this one itself
	depth  int     // how many modules are around

	located   bool // pathFound is the path; see label
	pathFound string
}

// Located is a module that knows where in a model it is, for errors.
type Located interface {
	// PathIn is the path of the module in the model, as in "h.3.attn". outer are the modules whose forward passes are around, the
	// outermost first. It is asked only when an operation has failed.
	PathIn(outer []Located) string
}

// maxModules is deeper than any model: modules are nested like this if one is a part of itself.
const maxModules = 10000

// path is that of the module whose forward pass the scope is in, empty for none.
func (s *scope) path() string {
	if s == nil || s.host == nil {
		return ""
	}
	around := s.modules()
	last := len(around) - 1
	return around[last].PathIn(around[:last])
}

// modules are those whose forward passes are around, the outermost first.
func (s *scope) modules() []Located {
	var around []Located
	for at := s.hosted(); at != nil; at = at.outer.hosted() {
		around = append(around, at.module)
	}
	slices.Reverse(around)
	return around
}

// missing is the error of a parameter without a tensor, by what the module that asked for it knows.
func (s *scope) missing(p *Parameter) error {
	err := p.missing()
	around := s.modules()
	if len(around) == 0 || p == nil || p.wrong != nil {
		return err
	}
	last := len(around) - 1
	if m, ok := around[last].(interface {
		MissingIn(outer []Located, p *Parameter) *ParameterError
	}); ok {
		return m.MissingIn(around[:last], p)
	}
	return err
}

func (s *scope) hosted() *scope {
	if s == nil {
		return nil
	}
	return s.host
}

// ModulePath is the path in the model of the module whose forward pass is under way, empty outside of all.
func (g *Graph) ModulePath() string {
	if g == nil {
		return ""
	}
	return g.scope.path()
}

// ModuleScope is Scope for the forward pass of a module: errors of operations in it say where in the model they were. After an error of
// the graph f is not run. If f returns nil, that is an error (ErrNilVariable).
func (g *Graph) ModuleScope(m Located, f func() *Variable) *Variable {
	switch {
	case g == nil || f == nil:
		return g.without("ModuleScope")
	case g.err != nil:
		return g.poison
	}
	s := g.beginModule(m)
	var result [1]*Variable
	defer g.endScope(s, result[:])
	if s.depth > maxModules {
		return g.Refuse("forward", nestedForEver("ModuleScope"))
	}
	if region.On() {
		defer g.beginRegion(m)()
	}
	if result[0] = f(); result[0] == nil {
		return g.Refuse("forward", errNothing)
	}
	return result[0]
}

// errNothing is the error of a module without a result: nil would be passed on, to an error far from it.
var errNothing = fmt.Errorf("the module's Forward returned nil: %w", ErrNilVariable)

// ModuleScopes is ModuleScope for modules with several results. It runs f after an error too, but not in modules nested without end.
func (g *Graph) ModuleScopes(m Located, f func() []*Variable) (results []*Variable) {
	if g == nil || f == nil {
		g.without("ModuleScopes")
		return nil
	}
	s := g.beginModule(m)
	defer func() { g.endScope(s, results) }()
	if s.depth > maxModules {
		g.Refuse("forward", nestedForEver("ModuleScopes"))
		return nil
	}
	if region.On() {
		defer g.beginRegion(m)()
	}
	results = f()
	return results
}

// beginRegion marks the forward pass of a module on time lines, under the module's path: its type, if that is known, for
// the outermost one.
func (g *Graph) beginRegion(m Located) (end func()) {
	name := g.ModulePath()
	if t, ok := m.(interface{ ModuleType() string }); ok && name == "" {
		name = t.ModuleType()
	}
	if name == "" {
		name = "model"
	}
	return region.Begin("module", name)
}

func nestedForEver(call string) error {
	return &tensor.ValueError{Op: call, Detail: fmt.Sprintf("modules are nested more than %d deep: one is a part of itself", maxModules)}
}

func (g *Graph) beginModule(m Located) *scope {
	s := g.beginScope()
	if m != nil {
		s.module, s.host, s.depth = m, s, s.depth+1
		g.useBuffers(m)
		if g.watcher != nil {
			g.Fail(g.watcher.Enter(g, m))
		}
	}
	return s
}

// track puts a new variable on the list of the innermost scope.
func (g *Graph) track(v *Variable) *Variable {
	if g.scope != nil {
		g.scope.made = append(g.scope.made, v)
	}
	return v
}

// Scope runs f. When f returns, the values of all variables made in it are released, except that of the one it returns,
// which passes to the scope around. What a node has saved for backward stays until backward, but only for the node: using
// a variable of an ended scope is an error. Scopes nest. It returns what f returns.
func (g *Graph) Scope(f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("Scope")
	}
	var result [1]*Variable
	defer g.endScope(g.beginScope(), result[:])
	result[0] = f()
	return result[0]
}

// Scopes is Scope for functions with several results. It keeps all of them.
func (g *Graph) Scopes(f func() []*Variable) (results []*Variable) {
	if g == nil || f == nil {
		g.without("Scopes")
		return nil
	}
	s := g.beginScope()
	defer func() { g.endScope(s, results) }()
	results = f()
	return results
}

func (g *Graph) beginScope() *scope {
	s := &scope{outer: g.scope}
	if s.outer != nil {
		s.host, s.depth = s.outer.host, s.outer.depth
	}
	g.scope = s
	return s
}

// endScope also runs when f panics, with no results: so a program that recovers finds the scopes as they were.
func (g *Graph) endScope(s *scope, results []*Variable) {
	if g.watcher != nil && s.module != nil {
		defer g.watcher.Leave(g, s.module)
	}
	if g.released {
		return
	}
	g.scope = s.outer
	for _, v := range s.made {
		if slices.ContainsFunc(results, func(r *Variable) bool { return r.now() == v.now() }) {
			g.track(v)
		} else {
			v.now().release(ScopeEnded)
		}
	}
	s.made = nil // nodes keep the scope, for where they were made
}

// release releases the values of everything on the list of a scope that nobody else knows. A nil scope has none.
func (s *scope) release() {
	if s == nil {
		return
	}
	for _, v := range s.made {
		v.now().release(ScopeEnded)
	}
}

// Outside runs f outside of all scopes: what it makes lives until backward passes it or the graph is released. Caches that
// shall serve the whole graph are filled with it.
func (g *Graph) Outside(f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("Outside")
	}
	defer func(s *scope) { g.scope = s }(g.scope)
	g.scope = nil
	return f()
}

// Memo returns the variable that was kept under key, and makes it with f, outside of all scopes, if there is none. It is
// kept until the graph is released: backward does not release its value. Keys are compared as in a map; use a type of your
// own. It returns what f returned without keeping it if f failed. f runs as outside of NoGrad, because what is kept may be used
// outside later.
func (g *Graph) Memo(key any, f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("Memo")
	}
	if key != nil && !reflect.ValueOf(key).Comparable() {
		return g.Refuse("Memo", &tensor.ValueError{Op: "Memo", Detail: fmt.Sprintf("keys of type %T cannot be compared", key)})
	}
	if v, ok := g.memo[key]; ok && v.Alive() {
		return v
	}
	defer func(before bool) { g.noGrad = before }(g.noGrad)
	g.noGrad = g.inference
	v := g.Outside(f)
	if v == nil || v.g != g || !v.Alive() {
		return v
	}
	if g.memo == nil {
		g.memo = make(map[any]*Variable)
	}
	g.memo[key] = v.Keep()
	return v
}
