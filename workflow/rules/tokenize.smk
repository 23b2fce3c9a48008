"""Turn every distinct ASV into tokens, once for all views.

Inputs: `inputs/table.biom`, `inputs/sequences.fasta`, `inputs/taxonomy.tsv` where it is given and no sequences are.
Outputs: `tokens/asvs.arrow`.
"""


rule tokenize:
    input:
        unpack(named_lineages),
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
    output:
        tokens=result("tokens/asvs.arrow"),
    log:
        result("logs/tokenize.log"),
    cache: SHARED
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.tokenize(CONFIG, wildcards.dataset).plain(),
        code=script_digest("tokenize_asvs"),
    message:
        "Turning the sequences of {wildcards.dataset} into tokens"
    script:
        "../scripts/tokenize_asvs.py"
