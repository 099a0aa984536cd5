// The cells of recurrent layers: what lies between the matrix products of a step. kernels/cpu/cell.go is the specification.
#include "functions.h"

// A view: rows of units, or of several gates of as many units each. rows of one view are step elements apart.
template <class T> struct Rows {
    T* first;
    i64 step;
};

// The unit of this thread: its row and its place there.
struct Unit {
    u32 row, place, units;
    bool live;
};

FN Unit unit_of(u32 total, const Div& units) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    Unit u = {0, 0, units.size, i < total};
    if (u.live) {
        u.row = quotient(units, i);
        u.place = i - u.row * units.size;
    }
    return u;
}

template <class T> FN T* at(const Rows<T>& r, const Unit& u, u32 gate) {
    return r.first + ((i64)u.row * r.step + (i64)gate * u.units + u.place);
}

template <class T> FN Compute<T> in(const Rows<T>& r, const Unit& u, u32 gate = 0) { return get(*at(r, u, gate)); }

template <class T, class C> FN void out(const Rows<T>& r, const Unit& u, u32 gate, C v) { *at(r, u, gate) = put<T>(v); }

template <class T> FN void lstm(const Unit& u, Rows<T> gates, Rows<T> h, Rows<T> c, Rows<T> before) {
    using C = Compute<T>;
    C i = sigmoid(in(gates, u, 0)), f = sigmoid(in(gates, u, 1)), g = tanh(in(gates, u, 2)), o = sigmoid(in(gates, u, 3));
    C state = f * in(before, u) + i * g;
    out(gates, u, 0, i);
    out(gates, u, 1, f);
    out(gates, u, 2, g);
    out(gates, u, 3, o);
    out(c, u, 0, state);
    out(h, u, 0, o * tanh(state));
}

template <class T>
FN void lstm_backward(const Unit& u, Rows<T> dsums, Rows<T> dbefore, Rows<T> gates, Rows<T> before, Rows<T> c, Rows<T> y, Rows<T> r,
                      Rows<T> dc) {
    using C = Compute<T>;
    C i = in(gates, u, 0), f = in(gates, u, 1), g = in(gates, u, 2), o = in(gates, u, 3);
    C dh = in(y, u) + in(r, u), t = tanh(in(c, u)), d = dh * o * (1 - t * t) + in(dc, u), p = in(before, u);
    out(dsums, u, 0, d * g * (i * (1 - i)));
    out(dsums, u, 1, d * p * (f * (1 - f)));
    out(dsums, u, 2, d * i * (1 - g * g));
    out(dsums, u, 3, dh * t * (o * (1 - o)));
    out(dbefore, u, 0, d * f);
}

template <class T> FN void gru(const Unit& u, Rows<T> gates, Rows<T> h, Rows<T> inner, Rows<T> hidden, Rows<T> before) {
    using C = Compute<T>;
    C r = sigmoid(in(gates, u, 0) + in(hidden, u, 0)), z = sigmoid(in(gates, u, 1) + in(hidden, u, 1));
    C share = in(hidden, u, 2), n = tanh(in(gates, u, 2) + r * share);
    out(gates, u, 0, r);
    out(gates, u, 1, z);
    out(gates, u, 2, n);
    out(inner, u, 0, share);
    out(h, u, 0, n + z * (in(before, u) - n));
}

template <class T>
FN void gru_backward(const Unit& u, Rows<T> dgates, Rows<T> dhidden, Rows<T> dbefore, Rows<T> gates, Rows<T> inner, Rows<T> before,
                     Rows<T> y, Rows<T> rest) {
    using C = Compute<T>;
    C r = in(gates, u, 0), z = in(gates, u, 1), n = in(gates, u, 2), dh = in(y, u) + in(rest, u);
    C dz = dh * (in(before, u) - n) * (z * (1 - z)), dn = dh * (1 - z) * (1 - n * n), dr = dn * in(inner, u) * (r * (1 - r));
    out(dgates, u, 0, dr);
    out(dgates, u, 1, dz);
    out(dgates, u, 2, dn);
    out(dhidden, u, 0, dr);
    out(dhidden, u, 1, dz);
    out(dhidden, u, 2, dn * r);
    out(dbefore, u, 0, dh * z);
}

#define CELLS(T)                                                                                                      \
    KERNEL lstm_cell_##T(u32 total, Div units, Rows<T> gates, Rows<T> h, Rows<T> c, Rows<T> before) {                 \
        Unit u = unit_of(total, units);                                                                               \
        if (u.live) lstm(u, gates, h, c, before);                                                                     \
    }                                                                                                                 \
    KERNEL lstm_cell_backward_##T(u32 total, Div units, Rows<T> dsums, Rows<T> dbefore, Rows<T> gates, Rows<T> before, \
                                  Rows<T> c, Rows<T> y, Rows<T> r, Rows<T> dc) {                                      \
        Unit u = unit_of(total, units);                                                                               \
        if (u.live) lstm_backward(u, dsums, dbefore, gates, before, c, y, r, dc);                                     \
    }                                                                                                                 \
    KERNEL gru_cell_##T(u32 total, Div units, Rows<T> gates, Rows<T> h, Rows<T> inner, Rows<T> hidden, Rows<T> before) { \
        Unit u = unit_of(total, units);                                                                               \
        if (u.live) gru(u, gates, h, inner, hidden, before);                                                          \
    }                                                                                                                 \
    KERNEL gru_cell_backward_##T(u32 total, Div units, Rows<T> dgates, Rows<T> dhidden, Rows<T> dbefore, Rows<T> gates, \
                                 Rows<T> inner, Rows<T> before, Rows<T> y, Rows<T> r) {                               \
        Unit u = unit_of(total, units);                                                                               \
        if (u.live) gru_backward(u, dgates, dhidden, dbefore, gates, inner, before, y, r);                            \
    }

CELLS(f32)
CELLS(f64)
CELLS(f16)
CELLS(bf16)
