# Turns rk3588.regs into ork_regs.h. POSIX awk, no extensions (mawk, gawk, busybox agree).
# For a field F of register R of block B the header gets
#   ORK_B_R_F(v)      the field's bits, or ORK_FIELD_OVERFLOW when v does not fit
#   ORK_GET_B_R_F(r)  the field's value out of register value r
# and for every register ORK_REG_B_R (offset) and ORK_MASK_B_R (the bits that mean something).
function fail(why) {
    print FILENAME ":" FNR ": " why > "/dev/stderr"
    bad = 1
    exit 1
}
function end_reg() {
    if (reg == "")
        return
    if (mask == "") {
        printf "#define ORK_%s_%s(v) ork_field((v), 0, 32)\n", block, reg
        mask = "0xffffffffu"
    }
    printf "#define ORK_MASK_%s_%s (%s)\n", block, reg, mask
    regs = regs sprintf(" \\\n    X(%s, %s, %s, ORK_MASK_%s_%s)", block, reg, offset, block, reg)
    reg = ""
}
BEGIN {
    print "/* Generated from rk3588.regs by regs.awk; do not edit. */"
    print "#ifndef ORK_REGS_H\n#define ORK_REGS_H\n"
    print "#include \"field.h\"\n"
}
/^[ \t]*(#|$)/ { next }
$1 == "value" {
    if (NF != 4) fail("value GROUP NAME NUMBER")
    printf "#define ORK_%s_%s %s\n", $2, $3, $4
    next
}
$1 == "block" {
    end_reg()
    if (NF != 5) fail("block NAME TARGET FIRST LAST")
    block = $2
    printf "\n#define ORK_TARGET_%s %su\n", block, $3
    blocks = blocks sprintf(" \\\n    X(%s, %s, %s, %s)", block, $3, $4, $5)
    next
}
$1 == "reg" {
    end_reg()
    if (NF != 3 || block == "") fail("reg OFFSET NAME, below a block")
    if ((block, $2) in seen) fail("offset " $2 " twice")
    seen[block, $2] = 1
    offset = $2; reg = $3; mask = ""
    printf "\n#define ORK_REG_%s_%s %su\n", block, reg, offset
    next
}
$1 == "field" {
    if (reg == "" || NF < 4 || $3 < $4 || $3 > 31) fail("field NAME HI LO [signed], below a reg")
    bits = $3 - $4 + 1
    sign = ($5 == "signed") ? "_signed" : ""
    name = block "_" reg "_" $2
    printf "#define ORK_%s(v) ork_field%s((v), %d, %d)\n", name, sign, $4, bits
    printf "#define ORK_GET_%s(r) ork_field_get%s((r), %d, %d)\n", name, sign, $4, bits
    part = sprintf("ORK_BITS(%d, %d)", $4, bits)
    mask = (mask == "") ? part : mask " | " part
    fields = fields sprintf(" \\\n    X(%s, %s, %s, %s, %d, %d, %d)", block, reg, $2, offset, $4, bits, sign != "")
    next
}
{ fail("unknown line: " $0) }
END {
    if (bad) exit 1
    end_reg()
    print "\n/* X(block, target, first offset, last offset) */"
    print "#define ORK_BLOCK_LIST(X)" blocks
    print "\n/* X(block, register, offset, mask) */"
    print "#define ORK_REG_LIST(X)" regs
    print "\n/* X(block, register, field, offset, lowest bit, bits, signed) */"
    print "#define ORK_FIELD_LIST(X)" fields
    print "\n#endif"
}
