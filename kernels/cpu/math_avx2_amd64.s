#include "textflag.h"

// Transcendental functions of float32 on AVX2: four elements at a time, in float64, operation by operation as in math.go and
// activation.go, so that results are the same bits. Products are not fused into sums.

// Each constant stands there four times.
DATA constants<>+0(SB)/8, $0x3ff71547652b82fe // log2e: log2(e)
DATA constants<>+8(SB)/8, $0x3ff71547652b82fe
DATA constants<>+16(SB)/8, $0x3ff71547652b82fe
DATA constants<>+24(SB)/8, $0x3ff71547652b82fe
DATA constants<>+32(SB)/8, $0x4338000000000000 // shift: adding it rounds to an integer
DATA constants<>+40(SB)/8, $0x4338000000000000
DATA constants<>+48(SB)/8, $0x4338000000000000
DATA constants<>+56(SB)/8, $0x4338000000000000
DATA constants<>+64(SB)/8, $0x3f2444003951a36d // p5: 2^r = 1 + r*(p0 + r*(p1 + ... + r*p5))
DATA constants<>+72(SB)/8, $0x3f2444003951a36d
DATA constants<>+80(SB)/8, $0x3f2444003951a36d
DATA constants<>+88(SB)/8, $0x3f2444003951a36d
DATA constants<>+96(SB)/8, $0x3f55f0896ef870e3 // p4
DATA constants<>+104(SB)/8, $0x3f55f0896ef870e3
DATA constants<>+112(SB)/8, $0x3f55f0896ef870e3
DATA constants<>+120(SB)/8, $0x3f55f0896ef870e3
DATA constants<>+128(SB)/8, $0x3f83b2a1b6c93bd8 // p3
DATA constants<>+136(SB)/8, $0x3f83b2a1b6c93bd8
DATA constants<>+144(SB)/8, $0x3f83b2a1b6c93bd8
DATA constants<>+152(SB)/8, $0x3f83b2a1b6c93bd8
DATA constants<>+160(SB)/8, $0x3fac6af6cce0b50b // p2
DATA constants<>+168(SB)/8, $0x3fac6af6cce0b50b
DATA constants<>+176(SB)/8, $0x3fac6af6cce0b50b
DATA constants<>+184(SB)/8, $0x3fac6af6cce0b50b
DATA constants<>+192(SB)/8, $0x3fcebfbe045f992b // p1
DATA constants<>+200(SB)/8, $0x3fcebfbe045f992b
DATA constants<>+208(SB)/8, $0x3fcebfbe045f992b
DATA constants<>+216(SB)/8, $0x3fcebfbe045f992b
DATA constants<>+224(SB)/8, $0x3fe62e4302fccffc // p0
DATA constants<>+232(SB)/8, $0x3fe62e4302fccffc
DATA constants<>+240(SB)/8, $0x3fe62e4302fccffc
DATA constants<>+248(SB)/8, $0x3fe62e4302fccffc
DATA constants<>+256(SB)/8, $0x3ff0000000000000 // one: 1, whose bits are the bias of exponents
DATA constants<>+264(SB)/8, $0x3ff0000000000000
DATA constants<>+272(SB)/8, $0x3ff0000000000000
DATA constants<>+280(SB)/8, $0x3ff0000000000000
DATA constants<>+288(SB)/8, $0x4086280000000000 // high
DATA constants<>+296(SB)/8, $0x4086280000000000
DATA constants<>+304(SB)/8, $0x4086280000000000
DATA constants<>+312(SB)/8, $0x4086280000000000
DATA constants<>+320(SB)/8, $0xc086200000000000 // low
DATA constants<>+328(SB)/8, $0xc086200000000000
DATA constants<>+336(SB)/8, $0xc086200000000000
DATA constants<>+344(SB)/8, $0xc086200000000000
DATA constants<>+352(SB)/8, $0x7ff0000000000000 // inf
DATA constants<>+360(SB)/8, $0x7ff0000000000000
DATA constants<>+368(SB)/8, $0x7ff0000000000000
DATA constants<>+376(SB)/8, $0x7ff0000000000000
DATA constants<>+384(SB)/8, $0x4000000000000000 // two
DATA constants<>+392(SB)/8, $0x4000000000000000
DATA constants<>+400(SB)/8, $0x4000000000000000
DATA constants<>+408(SB)/8, $0x4000000000000000
DATA constants<>+416(SB)/8, $0x8000000000000000 // minus: the sign bit
DATA constants<>+424(SB)/8, $0x8000000000000000
DATA constants<>+432(SB)/8, $0x8000000000000000
DATA constants<>+440(SB)/8, $0x8000000000000000
DATA constants<>+448(SB)/8, $0x3fd0000000000000 // quarter
DATA constants<>+456(SB)/8, $0x3fd0000000000000
DATA constants<>+464(SB)/8, $0x3fd0000000000000
DATA constants<>+472(SB)/8, $0x3fd0000000000000
DATA constants<>+480(SB)/8, $0xbfd5555555555555 // t3: the series of tanh
DATA constants<>+488(SB)/8, $0xbfd5555555555555
DATA constants<>+496(SB)/8, $0xbfd5555555555555
DATA constants<>+504(SB)/8, $0xbfd5555555555555
DATA constants<>+512(SB)/8, $0x3fc1111111111111 // t5
DATA constants<>+520(SB)/8, $0x3fc1111111111111
DATA constants<>+528(SB)/8, $0x3fc1111111111111
DATA constants<>+536(SB)/8, $0x3fc1111111111111
DATA constants<>+544(SB)/8, $0xbfaba1ba1ba1ba1c // t7
DATA constants<>+552(SB)/8, $0xbfaba1ba1ba1ba1c
DATA constants<>+560(SB)/8, $0xbfaba1ba1ba1ba1c
DATA constants<>+568(SB)/8, $0xbfaba1ba1ba1ba1c
DATA constants<>+576(SB)/8, $0x3f9664f4882c10fa // t9
DATA constants<>+584(SB)/8, $0x3f9664f4882c10fa
DATA constants<>+592(SB)/8, $0x3f9664f4882c10fa
DATA constants<>+600(SB)/8, $0x3f9664f4882c10fa
DATA constants<>+608(SB)/8, $0xbfe0000000000000 // minushalf
DATA constants<>+616(SB)/8, $0xbfe0000000000000
DATA constants<>+624(SB)/8, $0xbfe0000000000000
DATA constants<>+632(SB)/8, $0xbfe0000000000000
DATA constants<>+640(SB)/8, $0x3fd51eb851eb851f // third: the normal distribution: t = 1/(1+0.33*z), then a polynomial in t
DATA constants<>+648(SB)/8, $0x3fd51eb851eb851f
DATA constants<>+656(SB)/8, $0x3fd51eb851eb851f
DATA constants<>+664(SB)/8, $0x3fd51eb851eb851f
DATA constants<>+672(SB)/8, $0xbf88cfe7c89ad53f // n12
DATA constants<>+680(SB)/8, $0xbf88cfe7c89ad53f
DATA constants<>+688(SB)/8, $0xbf88cfe7c89ad53f
DATA constants<>+696(SB)/8, $0xbf88cfe7c89ad53f
DATA constants<>+704(SB)/8, $0x3fb5967378bc1da0 // n11
DATA constants<>+712(SB)/8, $0x3fb5967378bc1da0
DATA constants<>+720(SB)/8, $0x3fb5967378bc1da0
DATA constants<>+728(SB)/8, $0x3fb5967378bc1da0
DATA constants<>+736(SB)/8, $0xbfcf55905015949b // n10
DATA constants<>+744(SB)/8, $0xbfcf55905015949b
DATA constants<>+752(SB)/8, $0xbfcf55905015949b
DATA constants<>+760(SB)/8, $0xbfcf55905015949b
DATA constants<>+768(SB)/8, $0x3fd7a9bd5789a004 // n9
DATA constants<>+776(SB)/8, $0x3fd7a9bd5789a004
DATA constants<>+784(SB)/8, $0x3fd7a9bd5789a004
DATA constants<>+792(SB)/8, $0x3fd7a9bd5789a004
DATA constants<>+800(SB)/8, $0xbfd2a03ae43dac3b // n8
DATA constants<>+808(SB)/8, $0xbfd2a03ae43dac3b
DATA constants<>+816(SB)/8, $0xbfd2a03ae43dac3b
DATA constants<>+824(SB)/8, $0xbfd2a03ae43dac3b
DATA constants<>+832(SB)/8, $0x3fbd77a8ac823591 // n7
DATA constants<>+840(SB)/8, $0x3fbd77a8ac823591
DATA constants<>+848(SB)/8, $0x3fbd77a8ac823591
DATA constants<>+856(SB)/8, $0x3fbd77a8ac823591
DATA constants<>+864(SB)/8, $0xbfaf43039f0e75de // n6
DATA constants<>+872(SB)/8, $0xbfaf43039f0e75de
DATA constants<>+880(SB)/8, $0xbfaf43039f0e75de
DATA constants<>+888(SB)/8, $0xbfaf43039f0e75de
DATA constants<>+896(SB)/8, $0x3f9605f99f2f380b // n5
DATA constants<>+904(SB)/8, $0x3f9605f99f2f380b
DATA constants<>+912(SB)/8, $0x3f9605f99f2f380b
DATA constants<>+920(SB)/8, $0x3f9605f99f2f380b
DATA constants<>+928(SB)/8, $0x3fa911aa1d2aff3a // n4
DATA constants<>+936(SB)/8, $0x3fa911aa1d2aff3a
DATA constants<>+944(SB)/8, $0x3fa911aa1d2aff3a
DATA constants<>+952(SB)/8, $0x3fa911aa1d2aff3a
DATA constants<>+960(SB)/8, $0x3fb6b865a01b87d1 // n3
DATA constants<>+968(SB)/8, $0x3fb6b865a01b87d1
DATA constants<>+976(SB)/8, $0x3fb6b865a01b87d1
DATA constants<>+984(SB)/8, $0x3fb6b865a01b87d1
DATA constants<>+992(SB)/8, $0x3fbe07fe1f3c7c53 // n2
DATA constants<>+1000(SB)/8, $0x3fbe07fe1f3c7c53
DATA constants<>+1008(SB)/8, $0x3fbe07fe1f3c7c53
DATA constants<>+1016(SB)/8, $0x3fbe07fe1f3c7c53
DATA constants<>+1024(SB)/8, $0x3fc0d9f0e5105e4c // n1
DATA constants<>+1032(SB)/8, $0x3fc0d9f0e5105e4c
DATA constants<>+1040(SB)/8, $0x3fc0d9f0e5105e4c
DATA constants<>+1048(SB)/8, $0x3fc0d9f0e5105e4c
DATA constants<>+1056(SB)/8, $0x3fc0d9f03b560ba8 // n0
DATA constants<>+1064(SB)/8, $0x3fc0d9f03b560ba8
DATA constants<>+1072(SB)/8, $0x3fc0d9f03b560ba8
DATA constants<>+1080(SB)/8, $0x3fc0d9f03b560ba8
DATA constants<>+1088(SB)/8, $0x3fd9884533d43651 // density: 1/sqrt(2*pi)
DATA constants<>+1096(SB)/8, $0x3fd9884533d43651
DATA constants<>+1104(SB)/8, $0x3fd9884533d43651
DATA constants<>+1112(SB)/8, $0x3fd9884533d43651
DATA constants<>+1120(SB)/8, $0x3ff9884533d43651 // gelutwo: 2*sqrt(2/pi)
DATA constants<>+1128(SB)/8, $0x3ff9884533d43651
DATA constants<>+1136(SB)/8, $0x3ff9884533d43651
DATA constants<>+1144(SB)/8, $0x3ff9884533d43651
DATA constants<>+1152(SB)/8, $0x3fe9884533d43651 // gelu: sqrt(2/pi)
DATA constants<>+1160(SB)/8, $0x3fe9884533d43651
DATA constants<>+1168(SB)/8, $0x3fe9884533d43651
DATA constants<>+1176(SB)/8, $0x3fe9884533d43651
DATA constants<>+1184(SB)/8, $0x3fa6e4e26d4801f7 // cubic: of the tanh approximation of GELU
DATA constants<>+1192(SB)/8, $0x3fa6e4e26d4801f7
DATA constants<>+1200(SB)/8, $0x3fa6e4e26d4801f7
DATA constants<>+1208(SB)/8, $0x3fa6e4e26d4801f7
DATA constants<>+1216(SB)/8, $0x3fc12ba9d1f60179 // cubic3: three times that
DATA constants<>+1224(SB)/8, $0x3fc12ba9d1f60179
DATA constants<>+1232(SB)/8, $0x3fc12ba9d1f60179
DATA constants<>+1240(SB)/8, $0x3fc12ba9d1f60179
GLOBL constants<>(SB), RODATA|NOPTR, $1248

#define C_LOG2E constants<>+0(SB)
#define C_SHIFT constants<>+32(SB)
#define C_P5 constants<>+64(SB)
#define C_P4 constants<>+96(SB)
#define C_P3 constants<>+128(SB)
#define C_P2 constants<>+160(SB)
#define C_P1 constants<>+192(SB)
#define C_P0 constants<>+224(SB)
#define C_ONE constants<>+256(SB)
#define C_HIGH constants<>+288(SB)
#define C_LOW constants<>+320(SB)
#define C_INF constants<>+352(SB)
#define C_TWO constants<>+384(SB)
#define C_MINUS constants<>+416(SB)
#define C_QUARTER constants<>+448(SB)
#define C_T3 constants<>+480(SB)
#define C_T5 constants<>+512(SB)
#define C_T7 constants<>+544(SB)
#define C_T9 constants<>+576(SB)
#define C_MINUSHALF constants<>+608(SB)
#define C_THIRD constants<>+640(SB)
#define C_N12 constants<>+672(SB)
#define C_N11 constants<>+704(SB)
#define C_N10 constants<>+736(SB)
#define C_N9 constants<>+768(SB)
#define C_N8 constants<>+800(SB)
#define C_N7 constants<>+832(SB)
#define C_N6 constants<>+864(SB)
#define C_N5 constants<>+896(SB)
#define C_N4 constants<>+928(SB)
#define C_N3 constants<>+960(SB)
#define C_N2 constants<>+992(SB)
#define C_N1 constants<>+1024(SB)
#define C_N0 constants<>+1056(SB)
#define C_DENSITY constants<>+1088(SB)
#define C_GELUTWO constants<>+1120(SB)
#define C_GELU constants<>+1152(SB)
#define C_CUBIC constants<>+1184(SB)
#define C_CUBIC3 constants<>+1216(SB)

// EXP sets Y0 to exp(Y0), for use in float32 results. It changes Y1, Y2 and Y3.
#define EXP \
	VMULPD C_LOG2E, Y0, Y1; \
	VADDPD C_SHIFT, Y1, Y2; \
	VSUBPD C_SHIFT, Y2, Y3; \
	VSUBPD Y3, Y1, Y1; \
	VPSLLQ $52, Y2, Y2; \
	VPADDQ C_ONE, Y2, Y2; \
	VMULPD C_P5, Y1, Y3; \
	VADDPD C_P4, Y3, Y3; \
	VMULPD Y1, Y3, Y3; \
	VADDPD C_P3, Y3, Y3; \
	VMULPD Y1, Y3, Y3; \
	VADDPD C_P2, Y3, Y3; \
	VMULPD Y1, Y3, Y3; \
	VADDPD C_P1, Y3, Y3; \
	VMULPD Y1, Y3, Y3; \
	VADDPD C_P0, Y3, Y3; \
	VMULPD Y1, Y3, Y3; \
	VADDPD C_ONE, Y3, Y3; \
	VMULPD Y2, Y3, Y3; \
	VCMPPD $0x1e, C_HIGH, Y0, Y1; \
	VCMPPD $0x11, C_LOW, Y0, Y2; \
	VBLENDVPD Y1, C_INF, Y3, Y3; \
	VANDNPD Y3, Y2, Y0

// SIGMOID sets Y0 to 1/(1+exp(-Y0)). It changes Y1, Y2 and Y3.
#define SIGMOID \
	VXORPD C_MINUS, Y0, Y0; \
	EXP; \
	VADDPD C_ONE, Y0, Y0; \
	VMOVUPD C_ONE, Y1; \
	VDIVPD Y0, Y1, Y0

// SLOPE sets Y0 to sigmoid(Y0) and Y7 to its derivative. It changes Y1, Y2, Y3, Y4 and Y6.
#define SLOPE \
	VMOVAPD Y0, Y6; \
	VORPD C_MINUS, Y0, Y0; \
	EXP; \
	VADDPD C_ONE, Y0, Y1; \
	VMOVUPD C_ONE, Y2; \
	VDIVPD Y1, Y2, Y1; \
	VMULPD Y1, Y0, Y7; \
	VMULPD Y1, Y7, Y7; \
	VMULPD Y0, Y1, Y2; \
	VXORPD Y3, Y3, Y3; \
	VCMPPD $0x11, Y3, Y6, Y4; \
	VBLENDVPD Y4, Y2, Y1, Y0

// NORMAL sets Y0 to the normal distribution function at Y5, and Y4 to exp(-Y5*Y5/2). It changes Y1, Y2, Y3, Y6 and Y7.
#define NORMAL \
	VMOVUPD C_MINUS, Y1; \
	VANDNPD Y5, Y1, Y6; \
	VMULPD C_THIRD, Y6, Y1; \
	VADDPD C_ONE, Y1, Y1; \
	VMOVUPD C_ONE, Y2; \
	VDIVPD Y1, Y2, Y7; \
	VMOVUPD C_N12, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N11, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N10, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N9, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N8, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N7, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N6, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N5, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N4, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N3, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N2, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N1, Y4, Y4; \
	VMULPD Y7, Y4, Y4; \
	VADDPD C_N0, Y4, Y4; \
	VMULPD C_MINUSHALF, Y6, Y0; \
	VMULPD Y6, Y0, Y0; \
	VMOVAPD Y4, Y6; \
	EXP; \
	VMOVAPD Y0, Y4; \
	VMULPD Y7, Y0, Y0; \
	VMULPD Y6, Y0, Y0; \
	VMOVUPD C_ONE, Y1; \
	VSUBPD Y0, Y1, Y1; \
	VXORPD Y2, Y2, Y2; \
	VCMPPD $0x1e, Y2, Y5, Y2; \
	VBLENDVPD Y2, Y1, Y0, Y0

// GELUARGUMENT sets Y0 to 2*sqrt(2/pi)*Y5*(1+0.044715*Y5*Y5). It changes Y1.
#define GELUARGUMENT \
	VMULPD C_CUBIC, Y5, Y1; \
	VMULPD Y5, Y1, Y1; \
	VADDPD C_ONE, Y1, Y1; \
	VMULPD C_GELUTWO, Y5, Y0; \
	VMULPD Y1, Y0, Y0

// func expAVX2(n int, dst, a *float32)
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y0
	EXP
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func sigmoidAVX2(n int, dst, a *float32)
TEXT ·sigmoidAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y0
	SIGMOID
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func siluAVX2(n int, dst, a *float32)
TEXT ·siluAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y5
	VMOVAPD Y5, Y0
	SIGMOID
	VMULPD Y0, Y5, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func geluTanhAVX2(n int, dst, a *float32)
TEXT ·geluTanhAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y5
	GELUARGUMENT
	SIGMOID
	VMULPD Y0, Y5, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func geluAVX2(n int, dst, a *float32)
TEXT ·geluAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y5
	NORMAL
	VMULPD Y0, Y5, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func tanhAVX2(n int, dst, a *float32)
TEXT ·tanhAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y5
	VMULPD C_TWO, Y5, Y0
	EXP
	VADDPD C_ONE, Y0, Y0
	VMOVUPD C_TWO, Y1
	VDIVPD Y0, Y1, Y0
	VMOVUPD C_ONE, Y1
	VSUBPD Y0, Y1, Y0
	VMULPD Y5, Y5, Y1
	VMULPD C_T9, Y1, Y2
	VADDPD C_T7, Y2, Y2
	VMULPD Y1, Y2, Y2
	VADDPD C_T5, Y2, Y2
	VMULPD Y1, Y2, Y2
	VADDPD C_T3, Y2, Y2
	VMULPD Y5, Y1, Y1
	VMULPD Y2, Y1, Y1
	VADDPD Y5, Y1, Y1
	VMOVUPD C_MINUS, Y2
	VANDNPD Y5, Y2, Y2
	VCMPPD $0x11, C_QUARTER, Y2, Y2
	VBLENDVPD Y2, Y1, Y0, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func geluGradAVX2(n int, dst, a, b *float32)
TEXT ·geluGradAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	XORQ BX, BX

loop:
	VCVTPS2PD (DX)(BX*4), Y5
	NORMAL
	VMULPD Y4, Y5, Y1
	VMULPD C_DENSITY, Y1, Y1
	VADDPD Y1, Y0, Y0
	VCVTPS2PD (SI)(BX*4), Y1
	VMULPD Y0, Y1, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func geluTanhGradAVX2(n int, dst, a, b *float32)
TEXT ·geluTanhGradAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	XORQ BX, BX

loop:
	VCVTPS2PD (DX)(BX*4), Y5
	GELUARGUMENT
	SLOPE
	VADDPD Y5, Y5, Y1
	VMULPD Y7, Y1, Y1
	VMULPD C_GELU, Y1, Y1
	VMULPD C_CUBIC3, Y5, Y2
	VMULPD Y5, Y2, Y2
	VADDPD C_ONE, Y2, Y2
	VMULPD Y2, Y1, Y1
	VADDPD Y1, Y0, Y1
	VXORPD Y3, Y3, Y3
	VCMPPD $0, Y3, Y7, Y3
	VBLENDVPD Y3, Y0, Y1, Y0
	VCVTPS2PD (SI)(BX*4), Y1
	VMULPD Y0, Y1, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func siluGradAVX2(n int, dst, a, b *float32)
TEXT ·siluGradAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	XORQ BX, BX

loop:
	VCVTPS2PD (DX)(BX*4), Y5
	VMOVAPD Y5, Y0
	SLOPE
	VMULPD Y7, Y5, Y1
	VADDPD Y1, Y0, Y0
	VCVTPS2PD (SI)(BX*4), Y1
	VMULPD Y0, Y1, Y0
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VZEROUPPER
	RET

// func expSumAVX2(n int, dst, a *float32, m float64) float64
// Registers: Y8 is m; Y9 four sums, added up in pairs at the end.
TEXT ·expSumAVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	VBROADCASTSD m+24(FP), Y8
	VXORPD Y9, Y9, Y9
	XORQ BX, BX

loop:
	VCVTPS2PD (SI)(BX*4), Y0
	VSUBPD Y8, Y0, Y0
	EXP
	VADDPD Y0, Y9, Y9
	VCVTPD2PSY Y0, X0
	VMOVUPS X0, (DI)(BX*4)
	ADDQ $4, BX
	CMPQ BX, CX
	JLT  loop
	VEXTRACTF128 $1, Y9, X1
	VADDPD X1, X9, X0
	VHADDPD X0, X0, X0
	VMOVSD X0, ret+32(FP)
	VZEROUPPER
	RET
