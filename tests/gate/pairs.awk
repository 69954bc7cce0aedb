# The work of `pairs`, in POSIX awk, so that a bare system can run it; see there for what it reads.
#
# Arrays: name[f], n_values[f], value[f, v] are the factors; rule_factors[r] and bans[r, f, v] the rules:
# a combination is forbidden by rule r if for each factor the rule names, the value is banned by it. row[f] is
# the combination being built, 0 where still open. open_pairs[f, v, g, w] (f < g) are still to be met.
#
# The list is greedy: a row begins with a pair still open, then each factor takes the value that meets most
# open pairs and leaves the row completable; of several rows built in different orders the best is kept.

function fail(text) {
    print "pairs: " text > "/dev/stderr"
    failed = 2
    exit 2
}

function find_factor(text,    f) {
    for (f = 1; f <= n_factors; f++)
        if (name[f] == text)
            return f
    fail("a rule names the factor " text ", which is not there.")
}

# Notes the values that one term of a rule (factor=x|y or factor!=x|y) bans.
function read_term(r, term,    at, f, inverse, n, i, v, list, listed) {
    at = index(term, "=")
    if (at < 2)
        fail("write a rule as never: factor=value factor=value, not " term ".")
    inverse = substr(term, at - 1, 1) == "!"
    f = find_factor(substr(term, 1, at - 1 - inverse))
    if (has_term[r, f]++)
        fail("a rule names the factor " name[f] " twice.")
    n = split(substr(term, at + 1), list, "|")
    for (i = 1; i <= n; i++) {
        if (!((f, list[i]) in number))
            fail("factor " name[f] " has no value " list[i] ".")
        listed[list[i]] = 1
    }
    for (v = 1; v <= n_values[f]; v++)
        bans[r, f, v] = (value[f, v] in listed) != inverse
}

function read_line(line,    n, words, i) {
    sub(/#.*/, "", line)
    n = split(line, words, " ")
    if (n == 0)
        return
    if (n < 2 || substr(words[1], length(words[1])) != ":")
        fail("write a line as factor: value value, not \"" line "\".")
    if (words[1] == "never:") {
        n_rules++
        for (i = 2; i <= n; i++)
            read_term(n_rules, words[i])
        return
    }
    name[++n_factors] = substr(words[1], 1, length(words[1]) - 1)
    n_values[n_factors] = n - 1
    for (i = 2; i <= n; i++) {
        if ((n_factors, words[i]) in number)
            fail("factor " name[n_factors] " has the value " words[i] " twice.")
        value[n_factors, i - 1] = words[i]
        number[n_factors, words[i]] = i - 1
    }
}

function read_factors(    line, rc) {
    while ((rc = (getline line < factors)) > 0)
        read_line(line)
    if (rc < 0)
        fail("cannot read " factors ".")
    if (n_factors < 2)
        fail(factors " has fewer than two factors.")
}

# 1 if a rule forbids what is set in row, whatever the open factors become.
function is_forbidden(    r, f, hit) {
    for (r = 1; r <= n_rules; r++) {
        hit = 1
        for (f = 1; f <= n_factors && hit; f++)
            if ((r, f) in has_term && !(row[f] && bans[r, f, row[f]]))
                hit = 0
        if (hit)
            return 1
    }
    return 0
}

# 1 if the open factors of row can be set so that no rule forbids it; leaves row as it was.
function is_completable(from,    f, v, good) {
    if (is_forbidden())
        return 0
    for (f = from; f <= n_factors && row[f]; f++)
        ;
    if (f > n_factors)
        return 1
    good = 0
    for (v = 1; v <= n_values[f] && !good; v++) {
        row[f] = v
        good = is_completable(f + 1)
    }
    row[f] = 0
    return good
}

function clear_row(    f) {
    for (f = 1; f <= n_factors; f++)
        row[f] = 0
}

function list_open_pairs(    f, v, g, w) {
    for (f = 1; f < n_factors; f++)
        for (v = 1; v <= n_values[f]; v++)
            for (g = f + 1; g <= n_factors; g++)
                for (w = 1; w <= n_values[g]; w++) {
                    clear_row()
                    row[f] = v
                    row[g] = w
                    if (is_completable(1)) {
                        open_pairs[f, v, g, w] = 1
                        seeds[++n_seeds] = f " " v " " g " " w
                        n_open++
                    }
                }
}

# How many open pairs value v of factor f would meet in row.
function gain(f, v,    g, sum) {
    sum = 0
    for (g = 1; g <= n_factors; g++) {
        if (!row[g] || g == f)
            continue
        sum += g < f ? ((g, row[g], f, v) in open_pairs) : ((f, v, g, row[g]) in open_pairs)
    }
    return sum
}

# A number below n, the same in every awk (Lehmer's generator, exact in a double).
function draw(n) {
    state = (state * 16807) % 2147483647
    return state % n
}

# Sets factor f of row to the value with the greatest gain that keeps the row completable.
function set_best(f,    v, best, best_gain, g, first, i) {
    best_gain = -1
    first = draw(n_values[f])
    for (i = 0; i < n_values[f]; i++) {
        v = (first + i) % n_values[f] + 1
        g = gain(f, v)
        if (g <= best_gain)
            continue
        row[f] = v
        if (is_completable(1)) {
            best = v
            best_gain = g
        }
        row[f] = 0
    }
    row[f] = best
    return best_gain
}

# Builds a row from a seed pair, the other factors in random order; returns the pairs it meets.
function build_row(seed,    part, order, f, i, j, swap, met) {
    clear_row()
    split(seed, part, " ")
    row[part[1]] = part[2]
    row[part[3]] = part[4]
    met = 1
    for (f = 1; f <= n_factors; f++)
        order[f] = f
    for (i = n_factors; i > 1; i--) {
        j = draw(i) + 1
        swap = order[i]
        order[i] = order[j]
        order[j] = swap
    }
    for (i = 1; i <= n_factors; i++)
        if (!row[order[i]])
            met += set_best(order[i])
    return met
}

function row_text(    f, text) {
    text = name[1] "=" value[1, row[1]]
    for (f = 2; f <= n_factors; f++)
        text = text " " name[f] "=" value[f, row[f]]
    return text
}

# Strikes out the pairs of row; returns how many were open.
function meet_pairs(    f, g, met) {
    met = 0
    for (f = 1; f < n_factors; f++)
        for (g = f + 1; g <= n_factors; g++)
            if ((f, row[f], g, row[g]) in open_pairs) {
                delete open_pairs[f, row[f], g, row[g]]
                met++
            }
    return met
}

function copy_row(from, to,    f) {
    for (f = 1; f <= n_factors; f++)
        to[f] = from[f]
}

function print_pairs(    next_seed, try, met, best_met, best, part) {
    state = 20011
    next_seed = 1
    list_open_pairs()
    while (n_open > 0) {
        for (; ; next_seed++) {
            split(seeds[next_seed], part, " ")
            if ((part[1], part[2], part[3], part[4]) in open_pairs)
                break
        }
        best_met = 0
        for (try = 0; try < 24; try++) {
            met = build_row(seeds[next_seed])
            if (met > best_met) {
                best_met = met
                copy_row(row, best)
            }
        }
        copy_row(best, row)
        n_open -= meet_pairs()
        print row_text()
    }
}

# Goes through all combinations in order: prints them, or notes the pairs each allowed one makes possible.
function each_combination(print_them,    f) {
    for (f = 1; f <= n_factors; f++)
        row[f] = 1
    while (1) {
        if (!is_forbidden()) {
            if (print_them)
                print row_text()
            else
                note_pairs(possible)
        }
        for (f = n_factors; f >= 1 && row[f] == n_values[f]; f--)
            row[f] = 1
        if (f < 1)
            return
        row[f]++
    }
}

function note_pairs(pairs,    f, g) {
    for (f = 1; f < n_factors; f++)
        for (g = f + 1; g <= n_factors; g++)
            pairs[name[f] "=" value[f, row[f]] " " name[g] "=" value[g, row[g]]] = 1
}

function complain(text) {
    print "pairs: " text > "/dev/stderr"
    failed = 1
}

# Parses a combination into row; 0 with a complaint if it is none.
function read_row(line,    n, words, i, at, f) {
    clear_row()
    n = split(line, words, " ")
    for (i = 1; i <= n; i++) {
        at = index(words[i], "=")
        f = find_factor(substr(words[i], 1, at - 1))
        row[f] = number[f, substr(words[i], at + 1)] + 0
    }
    for (f = 1; f <= n_factors; f++)
        if (!row[f]) {
            complain("\"" line "\" has no known value of " name[f] ".")
            return 0
        }
    return 1
}

# Looks at one combination of the list that is checked.
function check_combination(line) {
    n_combinations++
    if (!read_row(line))
        return
    if (is_forbidden())
        complain("\"" line "\" is against a rule.")
    note_pairs(met_pairs)
}

# By another way than the list is made: `possible` has the pairs of all allowed combinations.
function check_pairs(    pair, n) {
    for (pair in possible) {
        n++
        if (!(pair in met_pairs))
            complain(pair " do not meet.")
    }
    printf "%d combinations, %d pairs\n", n_combinations, n
}

BEGIN {
    read_factors()
    if (mode == "check") {
        each_combination(0)
    } else if (mode == "all") {
        each_combination(1)
        exit 0
    } else {
        print_pairs()
        exit 0
    }
}

{
    check_combination($0)
}

END {
    if (mode == "check" && failed != 2)
        check_pairs()
    exit failed
}
