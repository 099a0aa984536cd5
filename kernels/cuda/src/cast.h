// Cast, and Arange. Everything to everything, rounded once; float to integer truncates.
#pragma once

#include "elementwise.h"

template <class D> struct To {
    template <class C, class S> FN static Compute<D> of(C a, S, S) {
        if constexpr (Same<D, b8>::value) return a != 0;
        else if constexpr (is_half<D> && Same<C, f64>::value) return odd_float(a);
        else if constexpr (is_half<D> && (Same<C, i64>::value || Same<C, i32>::value)) return odd_int(a);
        else if constexpr (is_float<C> && !is_float<Compute<D>>) return (D)(i64)a; // a negative number wraps as an integer does
        else return (Compute<D>)a;
    }
};

#define CAST(A, D) MAP1(cast_##A##_##D, To<D>, D, A, u8)
#define CASTS(A) CAST(A, f32) CAST(A, f64) CAST(A, f16) CAST(A, bf16) CAST(A, i64) CAST(A, i32) CAST(A, u8) CAST(A, b8)
